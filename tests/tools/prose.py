"""Measures of prose in pages and messages: `python -m tests.tools.prose` prints them by page.

Pages are Markdown without code and tables. Messages are the strings of the distributions that are shown to
somebody: those with a space in them that are no docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "deploy" / "helm" / "sidelight" / "README.md",
)
LONG_SENTENCE_WORDS = 30
BANNED_PHRASES = (
    *("asked for", "foretold", "heard of", "how manieth"),
    *("in the order of time", "made anew", "so many", "tell apart", "told apart", "whoever"),
)
"""Phrases that were translated word by word; docs/glossary.md has the terms."""
_BANNED = re.compile(rf"\b({'|'.join(map(re.escape, BANNED_PHRASES))})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageMeasure:
    """The prose of one page."""

    path: Path
    words: int
    sentences: int
    long_sentences: int

    @property
    def long_share(self) -> float:
        return self.long_sentences / self.sentences if self.sentences else 0.0


def read_prose(path: Path) -> str:
    """The text of a page without code blocks, tables, headings and addresses."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    kept = [line for line in text.splitlines() if not line.startswith(("|", "#", "    ", "![", "<"))]
    return re.sub(r"\]\([^)]*\)", "]", "\n".join(kept))


def split_sentences(prose: str) -> Iterator[str]:
    """Sentences of a text; an item of a list ends one as a full stop does."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", prose):
        yield from filter(str.strip, re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split())))


def measure_page(path: Path) -> PageMeasure:
    sentences = list(split_sentences(read_prose(path)))
    long = sum(len(sentence.split()) > LONG_SENTENCE_WORDS for sentence in sentences)
    return PageMeasure(path, len(path.read_text(encoding="utf-8").split()), len(sentences), long)


def find_banned_in_pages() -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number} {phrase[0]}"
        for path in PAGES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for phrase in _BANNED.finditer(line)
    ]


def find_banned_in_messages() -> list[str]:
    """Find banned phrases in strings of the distributions and texts of the UI."""
    found = []
    for folder in sorted(path.parent for path in ROOT.glob("*/pyproject.toml")):
        for path in sorted(folder.glob("sidelight*/**/*.py")):
            found += [
                f"{path.relative_to(ROOT)}:{line} {phrase[0]}"
                for line, text in _messages(ast.parse(path.read_text(encoding="utf-8")))
                for phrase in _BANNED.finditer(text)
            ]
    for path in sorted((ROOT / "web" / "src").rglob("*")):
        if path.suffix in (".ts", ".tsx", ".json") and path.name != "schema.ts":
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [
                f"{path.relative_to(ROOT)}:{number} {phrase[0]}"
                for number, line in enumerate(lines, 1)
                if not line.strip().startswith(("//", "*", "/*"))
                for phrase in _BANNED.finditer(line)
            ]
    return found


def _messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def main() -> None:
    pages = [measure_page(path) for path in PAGES]
    for page in sorted(pages, key=lambda page: -page.words):
        print(f"{page.words:6d} words  {page.long_share:4.0%} long  {page.path.relative_to(ROOT)}")
    sentences, long = sum(page.sentences for page in pages), sum(page.long_sentences for page in pages)
    print(
        f"{sum(page.words for page in pages):6d} words  {long / sentences:4.0%} of {sentences} sentences long"
    )
    for title, findings in (("pages", find_banned_in_pages()), ("messages", find_banned_in_messages())):
        print(f"\nbanned phrases in {title}: {len(findings)}")
        print("\n".join(f"  {finding}" for finding in findings))


if __name__ == "__main__":
    main()
