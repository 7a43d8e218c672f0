"""Content types, headers and content security policies of exports."""

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

PROFILE_FORMATS: Final = ("folded", "speedscope", "pprof", "otlp", "csv", "svg", "html")
COMPARISON_FORMATS: Final = ("csv", "folded", "html")
CONTENT_TYPES: Final = {
    "folded": "text/plain; charset=utf-8",
    "speedscope": "application/json; charset=utf-8",
    "pprof": "application/vnd.google.protobuf+gzip",
    "otlp": "application/x-protobuf",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
FILE_EXTENSIONS: Final = {"speedscope": "speedscope.json", "pprof": "pb.gz", "otlp": "otlp.pb"}

_POLICY_META_PATTERN: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')
_DIGEST = b64encode(sha256(SCRIPT.encode()).digest()).decode()
SVG_POLICY: Final = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'; sandbox allow-scripts"
)
"""Content security policy of a flame graph that is opened from the collector.

It allows only the script of the flame graph itself, and no access to this origin.
"""
FORMAT_HEADERS: Final[Mapping[str, Mapping[str, str]]] = {
    "svg": {"Content-Security-Policy": SVG_POLICY},
    "html": {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"},
}


@lru_cache(maxsize=2)
def build_content_security_policy(page: str) -> str:
    """Return the policy of a built page, extended to deny access to this origin."""
    match = _POLICY_META_PATTERN.search(page)
    page_policy = match[1] if match else "default-src 'none'"
    return f"{page_policy}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"


def build_export_headers(exported: ExportedProfile, export_format: str) -> Mapping[str, str]:
    """Build headers with the provenance of an export and its file name."""
    numbers = {name: n for name, n in exported.basis.items() if isinstance(n, int)}
    headers = {f"Sidelight-{name.replace('_', '-').title()}": str(n) for name, n in numbers.items()}
    provenance = exported.provenance
    for at, side in enumerate(provenance.sides):
        side_name = "AB"[at] + "-" if len(provenance.sides) > 1 else ""
        headers[f"Sidelight-{side_name}Query"] = quote(side.query, safe=" !#$&'()*+,/:;<=>?@[\\]^`{|}~\"")
        headers[f"Sidelight-{side_name}From"] = format_timestamp(side.from_ns)
        headers[f"Sidelight-{side_name}Until"] = format_timestamp(side.until_ns)
    headers["Sidelight-Type"] = provenance.type
    return headers | {
        "Content-Disposition": f'inline; filename="{build_filename(provenance.title, export_format)}"'
    }


def build_filename(title: str, export_format: str) -> str:
    """Build a file name that is valid on every file system."""
    plain = re.sub(r"[^\w.-]+", "-", title, flags=re.ASCII).strip("-.")[:80] or "profile"
    return f"{plain}.{FILE_EXTENSIONS.get(export_format, export_format)}"
