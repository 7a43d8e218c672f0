"""Pages as the documentation site shows them: with their generated parts."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOOK = ROOT / "docs" / ".hooks" / "generated.py"


@cache
def read_page(path: Path) -> str:
    """Read a Markdown page and fill its markers as `make docs` does."""
    spec = importlib.util.spec_from_file_location("generated", HOOK)
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return str(hook.on_page_markdown(path.read_text(encoding="utf-8")))
