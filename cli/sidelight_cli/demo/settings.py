"""Settings of `sidelight demo`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sidelight import settings as house
from sidelight.settings import BadSetting, setting

ROUND_SECONDS = 20.0
MAX_LIVE_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """Settings of `sidelight demo`; rates are per second."""

    seconds: float | None = setting(
        None,
        "measure once for this long, then exit; without it, run until Ctrl-C with a new table every 20 s",
        parse=house.parse_positive_float,
    )
    rate: float = setting(
        150.0, "requests per second on each of the four services", parse=house.parse_positive_float
    )
    sample_rate: float = setting(
        100.0, "samples per second of each service", parse=house.parse_positive_float, metavar="HZ"
    )
    report: Path | None = setting(None, "write the results to this file as JSON", parse=Path, metavar="FILE")
    browser: bool = setting(True, "open the UI in a browser, if there is a desktop and no --seconds")
    listen: str = setting(
        "127.0.0.1:8080",
        "address of the collector; if the port is in use, any free port",
        metavar="HOST:PORT",
    )
    keep: Path | None = setting(
        None,
        "directory to keep windows and logs in; without it, they are deleted at the end",
        parse=Path,
        metavar="DIR",
    )

    def __post_init__(self) -> None:
        house.parse_address(self.listen)
        if self.seconds is not None and not 2 <= self.seconds <= 3600:
            raise BadSetting(
                "--seconds must be from 2 to 3600", hint="Without it the demo goes on until Ctrl-C."
            )
        if not 2 <= self.rate <= 2000:
            raise BadSetting(
                "--rate must be from 2 to 2000", hint="Two cores carry about 400 on each service."
            )
        if self.sample_rate > 1000:
            raise BadSetting(
                "--sample-rate must be at most 1000", hint="100 costs little and is enough here."
            )
        if self.report is not None and not self.report.resolve().parent.is_dir():
            raise BadSetting(f"--report: there is no directory {self.report.resolve().parent}")
        if self.report is not None and not os.access(self.report.resolve().parent, os.W_OK):
            raise BadSetting(f"--report: {self.report.resolve().parent} cannot be written")

    @property
    def listen_address(self) -> tuple[str, int]:
        """`listen` as host and port."""
        return house.parse_address(self.listen)

    @property
    def is_live(self) -> bool:
        """Whether the demo runs until the user ends it."""
        return self.seconds is None

    @property
    def round_seconds(self) -> float:
        """Duration of one measurement."""
        return ROUND_SECONDS if self.seconds is None else self.seconds

    @property
    def round_count(self) -> int:
        """Number of measurements; a live demo ends by itself after a day."""
        return round(MAX_LIVE_SECONDS / ROUND_SECONDS) if self.is_live else 1

    @property
    def window_seconds(self) -> float:
        """Duration of a window.

        Windows are short, so that pages are up to date and several windows fit into a round.
        """
        return min(2.0, self.round_seconds / 4)
