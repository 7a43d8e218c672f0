"""Settings of notes, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidelight.settings import parse_nonnegative_int, parse_positive_float, setting
from sidelight_collector.settings.source_links import SourceLinkSettings

MAX_NOTES: Final = 1000
MAX_RETENTION_DAYS: Final = 36_525


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class NoteSettings(SourceLinkSettings):
    """Settings of notes; the collector's `Settings` include them."""

    max_notes_per_service: int = setting(
        200,
        "most notes on a service in one namespace, at most 1,000",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    note_retention_days: float = setting(
        400.0, "days to keep a note after its last change", parse=parse_positive_float
    )

    def check_notes(self) -> None:
        """Raise ValueError for invalid settings."""
        if not 1 <= self.max_notes_per_service <= MAX_NOTES:
            raise ValueError(f"max_notes_per_service must be from 1 to {MAX_NOTES}")
        if self.note_retention_days > MAX_RETENTION_DAYS:
            raise ValueError(f"note_retention_days must be at most {MAX_RETENTION_DAYS}")
