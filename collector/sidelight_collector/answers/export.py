"""Profiles to take away, each as one file that says what it stands on.

speedscope's own JSON, pprof's profile and a flame graph as SVG have one side; folded text, a table of
functions (CSV) and a page that opens without a network (HTML) have one or two.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import pyarrow.compute as pc

import sidelight
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.arrow_ops import Column, to_ints
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.call_tree import build_call_tree, compute_costs
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import (
    STATES_BY_TYPE,
    StackWeights,
    iter_stack_rows,
    weigh_stacks,
)
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import (
    select_side_windows,
    select_windows,
)
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.storage.tables import STATES
from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.errors import LimitExceeded
from sidelight_model.export_formats.csv_export import write_csv
from sidelight_model.export_formats.html_export import write_html
from sidelight_model.export_formats.pprof import StateRow, write_pprof
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from sidelight_model.export_formats.speedscope import write_speedscope
from sidelight_model.export_formats.svg import DEFAULT_MAX_NODES, draw_svg
from sidelight_model.folded import Stack, join_frames, render_folded, render_folded_lines
from sidelight_model.tree import StackRow, Tree

AnyRow = TypeVar("AnyRow", StackRow, StateRow)

UNLIMITED: Final = sys.maxsize
EXPORTER: Final = f"sidelight {sidelight.__version__}"


@dataclass(frozen=True, slots=True)
class ExportedProfile:
    """A document, and what it stands on."""

    content: bytes
    provenance: Provenance
    basis: DataBasis


@dataclass(frozen=True, slots=True)
class PageTemplate:
    """The page that a profile is put into."""

    text: str = field(repr=False)


def export_folded(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    lines: bool,
    states: bool,
    name: str = "",
    max_frames: int = UNLIMITED,
    with_header: bool = False,
    stack_filter: StackFilter = NO_FILTER,
) -> ExportedProfile:
    """Folded text, sorted; with `states` the state is a last pseudo-frame, without it states are added up.

    Two sides are two counts in each line, as differential flame graphs take them. With `with_header` the
    first line is `# ` and what it stands on, as JSON: no tool takes that for a stack.
    """
    chosen = select_side_windows(context, sides)
    counts = [
        _count_stacks(context, windows, kind, stack_filter, lines=lines, max_frames=max_frames)
        for windows in chosen
    ]
    provenance = _build_provenance(context, sides, chosen, kind, name, stack_filter)
    header = f"# {provenance.to_json_text()}\n" if with_header else ""
    if len(counts) == 1:
        text = render_folded(counts[0], kind, states=states)
    else:
        text = "".join(_render_two_sides(counts, kind, states=states))
    return ExportedProfile(
        (header + text).encode(), provenance, build_basis(chosen, kind, context.unreadable_count)
    )


def export_speedscope(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    max_frames: int,
    nodes: int | None,
    stack_filter: StackFilter,
) -> ExportedProfile:
    """A sampled profile as speedscope reads it, in nanoseconds; stacks that are equal are one sample.

    With `nodes` the lightest call paths beyond so many become `(other)`, and the profile's name says so.
    """
    windows = select_windows(context, sides[0])
    provenance = _build_provenance(context, sides, [windows], kind, name, stack_filter)
    weights = _load_weights(context, windows, kind, stack_filter)
    if nodes is None:
        found, title = (
            list(_limit_frames(_merge_stack_rows(context, windows, weights, lines=lines), max_frames)),
            name,
        )
    else:
        found, dropped = _prune_stacks(context, windows, weights, lines=lines, nodes=nodes)
        title = f"{name} · {dropped:,} small call paths in (other)" if dropped else name
    content = write_speedscope(found, title, EXPORTER, provenance)
    return ExportedProfile(content, provenance, build_basis([windows], kind, context.unreadable_count))


def export_svg(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    stack_filter: StackFilter,
) -> ExportedProfile:
    """A flame graph that needs nothing but the file."""
    windows = select_windows(context, sides[0])
    provenance = _build_provenance(context, sides, [windows], kind, name, stack_filter)
    weights = _load_weights(context, windows, kind, stack_filter)
    call_tree = build_call_tree(context, [(windows, weights)], lines=lines, max_nodes=DEFAULT_MAX_NODES)
    context.deadline.remaining()
    times = [us * 1000 for us in call_tree.microseconds[0]]
    tree = Tree(call_tree.names, call_tree.level, call_tree.name, call_tree.samples, [times])
    content = draw_svg(tree, call_tree.pruned_nodes, name, provenance.to_lines())
    return ExportedProfile(content, provenance, build_basis([windows], kind, context.unreadable_count))


def export_pprof(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    max_frames: int,
    stack_filter: StackFilter,
) -> ExportedProfile:
    """A profile for `go tool pprof`, gzipped, its samples labelled with their state."""
    windows = select_windows(context, sides[0])
    found = list(
        _limit_frames(_iter_state_rows(context, windows, kind, stack_filter, lines=lines), max_frames)
    )
    context.deadline.remaining()
    provenance = _build_provenance(context, sides, [windows], kind, name, stack_filter)
    content = write_pprof(
        found, provenance, period_ns=_compute_period_ns(windows.table["period_ns"], provenance)
    )
    return ExportedProfile(content, provenance, build_basis([windows], kind, context.unreadable_count))


def export_csv(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    name: str,
    max_rows: int,
    with_comments: bool,
    stack_filter: StackFilter,
) -> ExportedProfile:
    """Functions with what they cost, heaviest first, of one side or two."""
    chosen = select_side_windows(context, sides)
    found = compute_costs(
        context, [(windows, _load_weights(context, windows, kind, stack_filter)) for windows in chosen]
    )
    if len(found) > max_rows:
        raise LimitExceeded(
            f"this profile has {len(found):,} functions, and a table may have {max_rows:,}",
            hint="Ask for less (a narrower selector, a shorter range), or raise the collector's --max-rows.",
        )
    heaviest = sorted(found.items(), key=lambda item: (-max(cost.self_ns for cost in item[1]), item[0]))
    provenance = _build_provenance(context, sides, chosen, kind, name, stack_filter)
    return ExportedProfile(
        write_csv(heaviest, provenance, with_comments=with_comments),
        provenance,
        build_basis(chosen, kind, context.unreadable_count),
    )


def export_html(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    nodes: int | None,
    max_nodes: int,
    states: bool,
    stack_filter: StackFilter,
    template: PageTemplate,
    comparison_options: ComparisonOptions,
) -> ExportedProfile:
    """A page with the flame graph, or the comparison and its verdict; with `states` it tells them apart."""
    judged = comparison_options if len(sides) > 1 else None
    drawing = partial(query_flame_graph, context, sides, kind, lines=lines, nodes=nodes, max_nodes=max_nodes)
    answer = drawing(states=states, stack_filter=stack_filter, comparison_options=judged)
    numbers = [
        _build_side_provenance(question, told) for question, told in zip(sides, answer["sides"], strict=True)
    ]
    provenance = Provenance(name, kind.value, EXPORTER, numbers, _describe_filter(stack_filter))
    profile = json.dumps({"about": provenance.to_json(), "flame": answer}, separators=(",", ":")).encode()
    context.deadline.remaining()
    return ExportedProfile(write_html(template.text, provenance, profile), provenance, answer["basis"])


def _count_stacks(
    context: QueryContext,
    windows: SelectedWindows,
    kind: ProfileType,
    stack_filter: StackFilter,
    *,
    lines: bool,
    max_frames: int,
) -> dict[Stack, Counts]:
    counts: dict[Stack, Counts] = {}
    for row in _limit_frames(_iter_state_rows(context, windows, kind, stack_filter, lines=lines), max_frames):
        key = join_frames(row.frames)
        counts[key] = counts.get(key, ZERO).plus(Counts(**{row.state: row.samples}))
    return counts


def _render_two_sides(
    sides: Sequence[Mapping[Stack, Counts]], kind: ProfileType, *, states: bool
) -> Iterator[str]:
    """Lines with two counts each, in the order of their stacks."""
    told = [
        dict(line[:-1].rpartition(" ")[::2] for line in render_folded_lines(counts, kind, states=states))
        for counts in sides
    ]
    for stack in sorted(told[0].keys() | told[1].keys()):
        yield f"{stack} {told[0].get(stack, 0)} {told[1].get(stack, 0)}\n"


def _load_weights(
    context: QueryContext,
    windows: SelectedWindows,
    kind: ProfileType,
    stack_filter: StackFilter,
    *states: str,
) -> StackWeights:
    """What windows hold of a type, in these states (or all of it), of the stacks that are looked at."""
    return apply_filter(
        context, windows, weigh_stacks(sum_stacks(context, windows), kind, states or STATES), stack_filter
    )


def _build_provenance(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    chosen: Sequence[SelectedWindows],
    kind: ProfileType,
    name: str,
    stack_filter: StackFilter,
) -> Provenance:
    numbers = []
    for question, windows in zip(sides, chosen, strict=True):
        told = summarize_side(question, windows, kind)
        if not stack_filter.accepts_all:
            told = narrow_summary(told, _load_weights(context, windows, kind, stack_filter), stack_filter)
        numbers.append(_build_side_provenance(question, told))
    return Provenance(name, kind.value, EXPORTER, numbers, _describe_filter(stack_filter))


def _describe_filter(stack_filter: StackFilter) -> str:
    """Which stacks are looked at, in words; empty for all."""
    least, most = stack_filter.min_depth, stack_filter.max_depth
    words = [f"at least {least} frames deep"] if least else []
    words += [f"at most {most} frames deep"] if most else []
    words += [f"with {stack_filter.function}"] if stack_filter.function else []
    words += [f"below {stack_filter.focus.partition('.')[2]}"] if stack_filter.focus else []
    return ", ".join(words)


def _build_side_provenance(query: WindowQuery, summary: SideSummary) -> SideProvenance:
    return SideProvenance(
        str(query.selector),
        query.from_ns,
        query.until_ns,
        *(
            summary["samples"],
            summary["pods"],
            summary["windows"],
            summary["seconds"],
            summary["pod_seconds"],
        ),
    )


def _compute_period_ns(periods: Column, provenance: Provenance) -> int:
    """The sampling period, or the mean of all samples where windows have different ones."""
    different = to_ints(pc.unique(periods))
    if len(different) == 1:
        return different[0]
    seen = provenance.sides[0]
    return round(seen.seconds * 1e9 / seen.samples) if seen.samples else 0


def _limit_frames(stack_rows: Iterable[AnyRow], max_frames: int) -> Iterator[AnyRow]:
    """The same rows. Raises LimitExceeded once their stacks have more than `max_frames` frames together."""
    frames = 0
    for row in stack_rows:
        frames += len(row[0])
        if frames > max_frames:
            raise LimitExceeded(
                f"the stacks of this export have more than {max_frames:,} frames together",
                hint="Ask for less (a narrower selector, a shorter range), take format=html, which keeps the "
                "heaviest call paths, or raise the collector's --max-export-frames.",
            )
        yield row


def _merge_stack_rows(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, *, lines: bool
) -> Iterator[StackRow]:
    """Stacks with their samples and time, each once."""
    times: dict[tuple[str, ...], tuple[int, int]] = {}
    for frames, samples, ns in iter_stack_rows(context, windows, weights, lines=lines):
        key = tuple(frames)
        seen = times.get(key, (0, 0))
        times[key] = seen[0] + samples, seen[1] + ns
    yield from ((frames, *weight) for frames, weight in times.items())


def _iter_state_rows(
    context: QueryContext,
    windows: SelectedWindows,
    kind: ProfileType,
    stack_filter: StackFilter,
    *,
    lines: bool,
) -> Iterator[StateRow]:
    """Stacks with their samples and time, each once in each state that it was seen in."""
    for state in STATES_BY_TYPE[kind]:
        weights = _load_weights(context, windows, kind, stack_filter, state)
        for frames, samples, ns in _merge_stack_rows(context, windows, weights, lines=lines):
            yield StateRow(frames, state, samples, ns)


def _prune_stacks(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, *, lines: bool, nodes: int
) -> tuple[list[StackRow], int]:
    """The stacks of the pruned tree, and how many call paths became part of an `(other)`."""
    tree = build_call_tree(context, [(windows, weights)], lines=lines, max_nodes=nodes)
    found: list[StackRow] = []
    path: list[str] = []
    columns = zip(tree.level, tree.name, tree.samples[0], tree.microseconds[0], strict=True)
    for level, code, samples, us in columns:
        del path[max(level - 1, 0) :]
        if level:
            path.append(tree.names[code])
            if samples:
                found.append((tuple(path), samples, us * 1000))
    return found, tree.pruned_nodes
