"""A flame graph as one HTML file that opens from a disk without a network.

The UI's build makes the template (`offline.html`), with script and style inline; its content security
policy allows only their hashes. The profile is inserted as base64 of gzipped JSON, so no function name can
end an element. All other inserted text is escaped as entities.
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
    """Insert a profile (JSON) into the template; equal profiles give equal bytes."""
    data = b64encode(gzip.compress(profile, GZIP_LEVEL, mtime=0)).decode()
    notes = "".join(f"<p>{escape_html(note)}</p>" for note in (*provenance.to_lines(), provenance.exporter))
    # The profile comes last: the escaped title and notes have no `<`, so they cannot contain its placeholder.
    page = (
        template.replace(TITLE_PLACEHOLDER, escape_html(provenance.title))
        .replace(NOTES_PLACEHOLDER, notes)
        .replace(PROFILE_PLACEHOLDER, data)
    )
    return page.encode(errors="replace")


def escape_html(text: str) -> str:
    """Escape text for the inside of an element."""
    return escape(escape_unprintable(text))
