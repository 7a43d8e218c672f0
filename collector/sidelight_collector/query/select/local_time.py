"""Hours and days of local time, in an IANA time zone or at an offset from UTC.

The hour that clocks repeat when summer time ends counts as one hour of its day. An hour that they skip is
empty.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array, Column, combine_chunks, to_ints
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.storage.tables import HOUR_NS
from sidelight_collector.times import SECOND_NS

QUARTER_NS: Final = 900 * SECOND_NS
"""Every offset from UTC since 1972 is a multiple of a quarter of an hour."""

_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)", re.ASCII)
_MAX_OFFSET: Final = timedelta(hours=18)
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CalendarDays:
    """The local days of a time range.

    midnights: the start of each day in Unix seconds.
    offset_unit_ns: local hours do not change within a multiple of this unit of UTC.
    """

    midnights: Sequence[float]
    first_date: date
    time_zone: tzinfo
    offset_unit_ns: int

    def locate(self, timestamps: Column) -> tuple[Array, Array]:
        """Return for each timestamp (Unix ns) its local hour, and the index of its day."""
        quarters = pc.divide(combine_chunks(timestamps), pa.scalar(QUARTER_NS)).dictionary_encode()
        local = [
            datetime.fromtimestamp(quarter * 900, self.time_zone) for quarter in to_ints(quarters.dictionary)
        ]
        hour = pa.array([moment.hour for moment in local], pa.int32())
        day = pa.array([(moment.date() - self.first_date).days for moment in local], pa.int64())
        return hour.take(quarters.indices), day.take(quarters.indices)


def parse_time_zone(zone: str) -> tzinfo:
    """Parse `Europe/Berlin`, `+02:00` or `UTC`. Raises BadParameter."""
    if zone == "UTC":
        return UTC
    if offset := _OFFSET.fullmatch(zone):
        length = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if length <= _MAX_OFFSET and int(offset[3]) % 15 == 0:
            return timezone(-length if offset[1] == "-" else length)
    else:
        try:
            return ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise BadParameter.invalid_value(
        "zone", zone, "UTC, an offset in quarters of an hour such as +05:30, or a name such as Europe/Berlin"
    )


def list_calendar_days(from_ns: int, until_ns: int, time_zone: tzinfo) -> CalendarDays:
    """List the local days that overlap a range, `until_ns` excluded."""
    first, last = (
        datetime.fromtimestamp(at // SECOND_NS, time_zone).date() for at in (from_ns, until_ns - 1)
    )
    count = (last - first).days + 1
    midnights = [
        datetime.combine(first + timedelta(days=at), datetime.min.time(), time_zone).timestamp()
        for at in range(count)
    ]
    hours = from_ns // HOUR_NS, -(-until_ns // HOUR_NS)
    local = (datetime.fromtimestamp(hour * 3600, time_zone) for hour in range(hours[0], hours[1] + 1, 12))
    has_whole_hours = all(not (moment.utcoffset() or timedelta()) % _HOUR for moment in local)
    return CalendarDays(midnights, first, time_zone, HOUR_NS if has_whole_hours else QUARTER_NS)
