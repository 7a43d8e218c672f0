"""A profile file that a reader sends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A file: its name, and its content without compression and byte order mark."""

    name: str
    content: bytes
