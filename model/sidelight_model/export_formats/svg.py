"""A flame graph as one SVG file, with zoom and search in viewers that run scripts.

The root is at the top, and a box is called by the box above it. The width of a box is its share of the
profile's time, or of its samples if the profile has no times. Hovering over a box shows its whole name and
its numbers, through the `<title>` that every viewer supports. A small script in the file (`svg_script`)
adds zoom, search and keyboard control; it loads nothing and sends nothing.

Frames come from any program, so they are escaped here. The number of boxes is limited: small ones become
`(other)` boxes, and the description counts them. Equal profiles give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape as entities

from sidelight_model.export_formats.colours import choose_colour, to_css
from sidelight_model.export_formats.svg_script import SCRIPT, STYLE
from sidelight_model.frames import Frame, unescape_frame
from sidelight_model.terminal_width import escape_unprintable, truncate_to_width
from sidelight_model.tree import StackRow, Tree, build_tree_from_rows, compute_totals, prune_tree

WIDTH = 1200
ROW_HEIGHT = 18
CELL_WIDTH = 7.25
"""Pixels per cell of monospaced text at 12 pixels: 0.6 em in nearly every font."""
_MARGIN = 10
_MIN_LABEL_CELLS = 3
DEFAULT_MAX_NODES = 5000


@dataclass(frozen=True, slots=True)
class _Box:
    level: int
    name: int
    start: int
    total: int
    self_weight: int
    samples: int


def write_svg(
    rows: Iterable[StackRow], title: str, notes: Sequence[str] = (), *, max_nodes: int = DEFAULT_MAX_NODES
) -> bytes:
    """Draw the flame graph of a profile's rows; `notes` are lines below the title.

    Draws the `max_nodes` heaviest call paths, and at most as many `(other)` boxes.
    """
    return draw_svg(*prune_tree(build_tree_from_rows([rows]), max_nodes), title, notes)


def draw_svg(tree: Tree, folded_nodes: int, title: str, notes: Sequence[str] = ()) -> bytes:
    """Draw the flame graph of a tree with one side.

    `folded_nodes` is the number of call paths that pruning folded into `(other)`.
    """
    boxes = list(_layout_boxes(tree))
    root = boxes[0]
    has_times = compute_totals(tree, 0, "ns")[0] > 0
    names = [escape_unprintable(unescape_frame(name)) for name in tree.names]
    fills = [to_css(choose_colour(Frame.parse(unescape_frame(name)))) for name in tree.names]
    header = [escape_unprintable(note) for note in notes]
    if not root.total:
        header.append("There is nothing to draw: no samples.")
    top = _MARGIN + ROW_HEIGHT * (3 + len(header))
    height = top + ROW_HEIGHT * (max(box.level for box in boxes) + 1) + _MARGIN
    return "".join(
        [
            *_render_head(
                escape_unprintable(title),
                header,
                _describe_graph(root, folded_nodes, has_times=has_times),
                height,
            ),
            *(
                _render_box(box, root, names[box.name], fills[box.name], top, has_times=has_times)
                for box in boxes
            ),
            f'</g>\n<script type="text/javascript"><![CDATA[{SCRIPT}]]></script>\n</svg>\n',
        ]
    ).encode()


def _layout_boxes(tree: Tree) -> Iterator[_Box]:
    """Yield a box for every node; children lie side by side from their parent's start."""
    samples = compute_totals(tree, 0)
    ns = compute_totals(tree, 0, "ns")
    weights, own = (ns, tree.self_ns[0]) if ns[0] else (samples, tree.self_samples[0])
    begins = [0]  # per level: the start of the next box
    for node, level in enumerate(tree.level):
        start = begins[level]
        begins[level + 1 :] = [start]
        begins[level] += weights[node]
        yield _Box(level, tree.name_index[node], start, weights[node], own[node], samples[node])


def _render_head(title: str, notes: Sequence[str], description: str, height: int) -> Iterator[str]:
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" lang="en" aria-labelledby="title desc">\n'
        f'<title id="title">{entities(title)}</title>\n<desc id="desc">{entities(description)}</desc>\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="{_MARGIN}" y="{_MARGIN + ROW_HEIGHT}" class="head">{entities(title)}</text>\n'
    )
    for number, note in enumerate(notes, 2):
        yield f'<text x="{_MARGIN}" y="{_MARGIN + ROW_HEIGHT * number}">{entities(note)}</text>\n'
    yield (
        f'<text id="at" x="{_MARGIN}" y="{_MARGIN + ROW_HEIGHT * (len(notes) + 2)}" '
        'aria-live="polite"></text>\n'
        f'<g id="frames" data-margin="{_MARGIN}" data-letter="{CELL_WIDTH}">\n'
    )


def _describe_graph(root: _Box, folded_nodes: int, *, has_times: bool) -> str:
    description = f"Flame graph, the root at the top: {_format_amount(root, has_times=has_times)}."
    if folded_nodes:
        description += f" {folded_nodes:,} call paths that are too small to draw are folded into (other)."
    return description


def _render_box(box: _Box, root: _Box, name: str, colour: str, top: int, *, has_times: bool) -> str:
    root_weight = root.total or 1
    x = _MARGIN + (WIDTH - 2 * _MARGIN) * box.start / root_weight
    box_width = (WIDTH - 2 * _MARGIN) * box.total / root_weight
    y = top + ROW_HEIGHT * box.level
    tooltip = f"{name}\n{_format_amount(box, has_times=has_times)}, {100 * box.total / root_weight:.1f} %"
    if box.self_weight and box.self_weight != box.total:
        tooltip += f"; itself {100 * box.self_weight / root_weight:.1f} %"
    label = truncate_to_width(name, int((box_width - 6) / CELL_WIDTH))
    text = ""
    if label == name or len(label) >= _MIN_LABEL_CELLS:
        text = f'<text x="{x + 3:.2f}" y="{y + 13}">{entities(label)}</text>' if label else ""
    return (
        f'<g data-a="{box.start}" data-n="{box.total}" data-l="{box.level}">'
        f"<title>{entities(tooltip)}</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{box_width:.2f}" height="{ROW_HEIGHT - 1}" '
        f'fill="{colour}"/>{text}</g>\n'
    )


def _format_amount(box: _Box, *, has_times: bool) -> str:
    samples = f"{box.samples:,} sample{'' if box.samples == 1 else 's'}"
    return f"{format_duration(box.total)} ({samples})" if has_times else samples


def format_duration(ns: int) -> str:
    """Format a duration in s, ms or µs."""
    if ns >= 10**9:
        return f"{ns / 1e9:,.2f} s"
    return f"{ns / 1e6:.1f} ms" if ns >= 10**6 else f"{ns / 1e3:.0f} µs"
