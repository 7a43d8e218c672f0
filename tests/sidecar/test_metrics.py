from __future__ import annotations

import re
from pathlib import Path

from sidelight_sidecar.metrics import to_kind_label

SOURCES = Path(__file__).parents[2] / "native" / "src"


def test_every_kind_of_error_that_the_extension_names_is_counted_under_its_name() -> None:
    source = "".join(path.read_text() for path in sorted(SOURCES.rglob("*.rs")))
    kinds = set(re.findall(r'(?:Failure::(?:new|passing)\(|StopError::\w+(?:\(_\))? => )"([a-z]+)"', source))
    assert kinds >= {"leaving", "lock", "moved", "panic", "read", "slow", "stopped", "traced", "unstoppable"}
    assert {to_kind_label(kind) for kind in kinds} == kinds
