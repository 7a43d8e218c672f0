"""A flame graph as one HTML file that opens from a disk with no network: the page of the UI, filled in.

The page is built with the UI (`offline.html`): its script and style stand in it, allowed by their hashes and
nothing else. The profile is put in as base64 of gzipped JSON, so whatever functions are called, there is no
letter in it that ends an element; everything else that is put in is written as entities.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from html import escape
from typing import Final

from sidelight_model.export_formats.provenance import About
from sidelight_model.terminal_width import visible

TITLE: Final = "<!--sidelight-title-->"
NOTES: Final = "<!--sidelight-notes-->"
PROFILE: Final = "<!--sidelight-profile-->"
GZIP_LEVEL: Final = 6


def write_page(template: str, about: About, profile: bytes) -> bytes:
    """The page with a profile (JSON) in it. Equal profiles give equal bytes."""
    data = b64encode(gzip.compress(profile, GZIP_LEVEL, mtime=0)).decode()
    notes = "".join(f"<p>{entities(note)}</p>" for note in (*about.notes(), about.exporter))
    # The profile last: what was filled in before cannot hold its placeholder, as entities have no `<`.
    page = template.replace(TITLE, entities(about.title)).replace(NOTES, notes).replace(PROFILE, data)
    return page.encode(errors="replace")


def entities(text: str) -> str:
    """Text for the inside of an element."""
    return escape(visible(text))
