"""How exports are sent: their types, what their headers say, and what a browser may do with them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from sidelight_collector.answers.export import ExportedProfile
from sidelight_model.export_formats.provenance import format_timestamp
from sidelight_model.export_formats.svg_script import SCRIPT

PROFILE_FORMATS: Final = ("folded", "speedscope", "pprof", "csv", "svg", "html")
COMPARISON_FORMATS: Final = ("csv", "folded", "html")
CONTENT_TYPES: Final = {
    "folded": "text/plain; charset=utf-8",
    "speedscope": "application/json; charset=utf-8",
    "pprof": "application/vnd.google.protobuf+gzip",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
FILE_EXTENSIONS: Final = {"speedscope": "speedscope.json", "pprof": "pb.gz"}

_POLICY_META_PATTERN: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')
_DIGEST = b64encode(sha256(SCRIPT.encode()).digest()).decode()
SVG_POLICY: Final = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'; sandbox allow-scripts"
)
"""Opened here, a flame graph runs its own script and no other, and reaches nothing of this origin."""
FORMAT_HEADERS: Final[Mapping[str, Mapping[str, str]]] = {
    "svg": {"Content-Security-Policy": SVG_POLICY},
    "html": {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"},
}


@lru_cache(maxsize=2)
def build_content_security_policy(page: str) -> str:
    """The policy that a built page carries, and that it reaches nothing of this origin when opened here."""
    found = _POLICY_META_PATTERN.search(page)
    own = found[1] if found else "default-src 'none'"
    return f"{own}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"


def build_export_headers(exported: ExportedProfile, export_format: str) -> Mapping[str, str]:
    """What an export stands on, as headers, and the name that a browser saves it under."""
    numbers = {name: n for name, n in exported.basis.items() if isinstance(n, int)}
    told = {f"Sidelight-{name.replace('_', '-').title()}": str(n) for name, n in numbers.items()}
    about = exported.provenance
    for at, side in enumerate(about.sides):
        who = "AB"[at] + "-" if len(about.sides) > 1 else ""
        told[f"Sidelight-{who}Query"] = quote(side.query, safe=" !#$&'()*+,/:;<=>?@[\\]^`{|}~\"")
        told[f"Sidelight-{who}From"] = format_timestamp(side.from_ns)
        told[f"Sidelight-{who}Until"] = format_timestamp(side.until_ns)
    told["Sidelight-Type"] = about.type
    return told | {"Content-Disposition": f'inline; filename="{build_filename(about.title, export_format)}"'}


def build_filename(title: str, export_format: str) -> str:
    """A name that every file system takes."""
    plain = re.sub(r"[^\w.-]+", "-", title, flags=re.ASCII).strip("-.")[:80] or "profile"
    return f"{plain}.{FILE_EXTENSIONS.get(export_format, export_format)}"
