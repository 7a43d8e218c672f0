"""A hook of MkDocs: links out of `docs/` become the path in the repository, as text."""

from __future__ import annotations

import re


def on_page_markdown(markdown: str, page, **_: object) -> str:
    """Replace links to files that are no pages; decisions are one folder deeper."""
    levels = page.file.src_uri.count("/") + 1
    outside = re.compile(rf"\[([^\]]*)\]\((?:\.\./){{{levels}}}(?!\.)([^)#]+)(?:#[^)]*)?\)")
    return outside.sub(_to_text, markdown)


def _to_text(link: re.Match[str]) -> str:
    text, path = link[1].strip("`"), link[2]
    return f"`{path}`" if text == path else f"{link[1]} (`{path}`)"
