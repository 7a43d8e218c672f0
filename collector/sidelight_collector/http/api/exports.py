"""How exports are sent: their types, what their headers say, and what a browser may do with them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from sidelight_collector.answers.export import Exported
from sidelight_model.export_formats.provenance import moment
from sidelight_model.export_formats.svg_script import SCRIPT

ONE_SIDE: Final = ("folded", "speedscope", "pprof", "csv", "svg", "html")
TWO_SIDES: Final = ("csv", "folded", "html")
CONTENT_TYPES: Final = {
    "folded": "text/plain; charset=utf-8",
    "speedscope": "application/json; charset=utf-8",
    "pprof": "application/vnd.google.protobuf+gzip",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
ENDINGS: Final = {"speedscope": "speedscope.json", "pprof": "pb.gz"}

_META: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')
_DIGEST = b64encode(sha256(SCRIPT.encode()).digest()).decode()
SVG_POLICY: Final = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'; sandbox allow-scripts"
)
"""Opened here, a flame graph runs its own script and no other, and reaches nothing of this origin."""
HEADERS: Final[Mapping[str, Mapping[str, str]]] = {
    "svg": {"Content-Security-Policy": SVG_POLICY},
    "html": {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"},
}


@lru_cache(maxsize=2)
def policy_of(page: str) -> str:
    """The policy that a built page carries, and that it reaches nothing of this origin when opened here."""
    found = _META.search(page)
    own = found[1] if found else "default-src 'none'"
    return f"{own}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"


def headers_of(made: Exported, wanted: str) -> Mapping[str, str]:
    """What an export stands on, as headers, and the name that a browser saves it under."""
    numbers = {name: n for name, n in made.basis.items() if isinstance(n, int)}
    told = {f"Sidelight-{name.replace('_', '-').title()}": str(n) for name, n in numbers.items()}
    about = made.about
    for at, side in enumerate(about.sides):
        who = "AB"[at] + "-" if len(about.sides) > 1 else ""
        told[f"Sidelight-{who}Query"] = quote(side.query, safe=" !#$&'()*+,/:;<=>?@[\\]^`{|}~\"")
        told[f"Sidelight-{who}From"] = moment(side.from_ns)
        told[f"Sidelight-{who}Until"] = moment(side.until_ns)
    told["Sidelight-Type"] = about.type
    return told | {"Content-Disposition": f'inline; filename="{filename(about.title, wanted)}"'}


def filename(title: str, wanted: str) -> str:
    """A name that every file system takes."""
    plain = re.sub(r"[^\w.-]+", "-", title, flags=re.ASCII).strip("-.")[:80] or "profile"
    return f"{plain}.{ENDINGS.get(wanted, wanted)}"
