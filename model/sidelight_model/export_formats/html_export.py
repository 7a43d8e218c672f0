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

from sidelight_model.export_formats.provenance import Provenance
from sidelight_model.terminal_width import escape_unprintable

TITLE_PLACEHOLDER: Final = "<!--sidelight-title-->"
NOTES_PLACEHOLDER: Final = "<!--sidelight-notes-->"
PROFILE_PLACEHOLDER: Final = "<!--sidelight-profile-->"
GZIP_LEVEL: Final = 6


def write_html(template: str, provenance: Provenance, profile: bytes) -> bytes:
    """The page with a profile (JSON) in it. Equal profiles give equal bytes."""
    data = b64encode(gzip.compress(profile, GZIP_LEVEL, mtime=0)).decode()
    notes = "".join(f"<p>{escape_html(note)}</p>" for note in (*provenance.to_lines(), provenance.exporter))
    # The profile last: what was filled in before cannot hold its placeholder, as entities have no `<`.
    page = (
        template.replace(TITLE_PLACEHOLDER, escape_html(provenance.title))
        .replace(NOTES_PLACEHOLDER, notes)
        .replace(PROFILE_PLACEHOLDER, data)
    )
    return page.encode(errors="replace")


def escape_html(text: str) -> str:
    """Text for the inside of an element."""
    return escape(escape_unprintable(text))
