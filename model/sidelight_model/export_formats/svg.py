"""A flame graph as one SVG file: readable as it lies, and with zoom and search where scripts run.

The root is at the top, a box below another is called by it, and a box is as wide as its share of the
profile's time (of its samples, where no time is known). Pointing at a box shows its whole name and its
numbers, by the `<title>` that every viewer knows. A small script in the file (`svg_script`) adds
zooming, searching and the keyboard; it loads nothing and sends nothing.

Frames come from any program, so they are cleaned and escaped here. The number of boxes is bounded: what
is too small becomes `(other)` boxes, counted in the description. Equal profiles give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape as entities

from sidelight_model.export_formats.colours import css, fill
from sidelight_model.export_formats.svg_script import SCRIPT, STYLE
from sidelight_model.frames import Frame, unescape
from sidelight_model.terminal_width import cut, visible
from sidelight_model.tree import Row, Tree, build, prune, totals

WIDTH = 1200
LINE = 18
FONT = 12
LETTER = 7.25
"""Pixels of one cell of 12 pixel monospaced text, which is 0.6 em in nearly every font."""
_MARGIN = 10
_LEAST_CELLS = 3
DEFAULT_NODES = 5000


@dataclass(frozen=True, slots=True)
class _Box:
    level: int
    name: int
    start: int
    total: int
    own: int
    samples: int


def write_svg(
    rows: Iterable[Row], title: str, notes: Sequence[str] = (), *, nodes: int = DEFAULT_NODES
) -> bytes:
    """The flame graph of a profile's rows; `notes` are lines below the title.

    Draws the `nodes` heaviest call paths and at most as many `(other)` boxes.
    """
    return draw_svg(*prune(build([rows]), nodes), title, notes)


def draw_svg(tree: Tree, folded: int, title: str, notes: Sequence[str] = ()) -> bytes:
    """The flame graph of one side's tree, from which `folded` call paths became `(other)`."""
    boxes = list(_boxes(tree))
    root = boxes[0]
    timed = totals(tree, 0, "ns")[0] > 0
    names = [visible(unescape(name)) for name in tree.names]
    fills = [css(fill(Frame.parse(unescape(name)))) for name in tree.names]
    header = [visible(note) for note in notes]
    if not root.total:
        header.append("There is nothing to draw: no samples.")
    top = _MARGIN + LINE * (3 + len(header))
    height = top + LINE * (max(box.level for box in boxes) + 1) + _MARGIN
    return "".join(
        [
            *_head(visible(title), header, _description(root, folded, timed=timed), height),
            *(_frame(box, root, names[box.name], fills[box.name], top, timed=timed) for box in boxes),
            f'</g>\n<script type="text/javascript"><![CDATA[{SCRIPT}]]></script>\n</svg>\n',
        ]
    ).encode()


def _boxes(tree: Tree) -> Iterator[_Box]:
    """Every node with where it begins: children follow each other from their parent's beginning."""
    samples = totals(tree, 0)
    ns = totals(tree, 0, "ns")
    weights, own = (ns, tree.self_ns[0]) if ns[0] else (samples, tree.self_samples[0])
    begins = [0]  # per level: where the next box begins
    for node, level in enumerate(tree.level):
        start = begins[level]
        begins[level + 1 :] = [start]
        begins[level] += weights[node]
        yield _Box(level, tree.name[node], start, weights[node], own[node], samples[node])


def _head(title: str, notes: Sequence[str], description: str, height: int) -> Iterator[str]:
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" lang="en" aria-labelledby="title desc">\n'
        f'<title id="title">{entities(title)}</title>\n<desc id="desc">{entities(description)}</desc>\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="{_MARGIN}" y="{_MARGIN + LINE}" class="head">{entities(title)}</text>\n'
    )
    for number, note in enumerate(notes, 2):
        yield f'<text x="{_MARGIN}" y="{_MARGIN + LINE * number}">{entities(note)}</text>\n'
    yield (
        f'<text id="at" x="{_MARGIN}" y="{_MARGIN + LINE * (len(notes) + 2)}" aria-live="polite"></text>\n'
        f'<g id="frames" data-margin="{_MARGIN}" data-letter="{LETTER}">\n'
    )


def _description(root: _Box, folded: int, *, timed: bool) -> str:
    said = f"Flame graph, the root at the top: {_amount(root, timed=timed)}."
    if folded:
        said += f" {folded:,} call paths that are too small to draw are folded into (other)."
    return said


def _frame(box: _Box, root: _Box, name: str, colour: str, top: int, *, timed: bool) -> str:
    whole = root.total or 1
    x = _MARGIN + (WIDTH - 2 * _MARGIN) * box.start / whole
    wide = (WIDTH - 2 * _MARGIN) * box.total / whole
    y = top + LINE * box.level
    told = f"{name}\n{_amount(box, timed=timed)}, {100 * box.total / whole:.1f} %"
    if box.own and box.own != box.total:
        told += f"; itself {100 * box.own / whole:.1f} %"
    label = cut(name, int((wide - 6) / LETTER))
    text = ""
    if label == name or len(label) >= _LEAST_CELLS:
        text = f'<text x="{x + 3:.2f}" y="{y + 13}">{entities(label)}</text>' if label else ""
    return (
        f'<g data-a="{box.start}" data-n="{box.total}" data-l="{box.level}">'
        f"<title>{entities(told)}</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{LINE - 1}" fill="{colour}"/>{text}</g>\n'
    )


def _amount(box: _Box, *, timed: bool) -> str:
    samples = f"{box.samples:,} sample{'' if box.samples == 1 else 's'}"
    return f"{duration(box.total)} ({samples})" if timed else samples


def duration(ns: int) -> str:
    """A length of time as a person writes it."""
    if ns >= 10**9:
        return f"{ns / 1e9:,.2f} s"
    return f"{ns / 1e6:.1f} ms" if ns >= 10**6 else f"{ns / 1e3:.0f} µs"
