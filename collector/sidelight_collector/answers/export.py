"""Profiles as files, each with its provenance.

speedscope JSON, pprof profiles and SVG flame graphs have one side. Folded text, a table of functions (CSV)
and a page that opens without a network (HTML) have one side or two.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from sidelight_model.counts import STATES, STATES_BY_TYPE, ZERO, Counts, ProfileType
from sidelight_model.errors import LimitExceeded
from sidelight_model.export_formats.csv_export import write_csv
from sidelight_model.export_formats.html_export import write_html
from sidelight_model.export_formats.pprof import StateRow, encode_pprof, write_pprof
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
    """An exported file, with its provenance and data basis."""

    content: bytes
    provenance: Provenance
    basis: DataBasis


@dataclass(frozen=True, slots=True)
class PageTemplate:
    """The HTML page into which a profile is inserted."""

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
    """Export sorted folded text.

    With `states` the last frame of a stack is a pseudo-frame of its state; without, the states are added
    up. Two sides give two counts per line, the input format of differential flame graphs. With
    `with_header` the first line is `# ` and the provenance as JSON, which no tool takes for a stack. Raises
    LimitExceeded if the stacks of a side have more than `max_frames` frames together.
    """
    windows_by_side = select_side_windows(context, sides)
    counts = [
        _count_stacks(context, windows, kind, stack_filter, lines=lines, max_frames=max_frames)
        for windows in windows_by_side
    ]
    provenance = _build_provenance(context, sides, windows_by_side, kind, name, stack_filter)
    header = f"# {provenance.to_json_text()}\n" if with_header else ""
    if len(counts) == 1:
        text = render_folded(counts[0], kind, states=states)
    else:
        text = "".join(_render_two_sides(counts, kind, states=states))
    return ExportedProfile(
        (header + text).encode(), provenance, build_basis(windows_by_side, kind, context.unreadable_count)
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
    """Export a sampled speedscope profile, with one sample per distinct stack.

    Weights are in nanoseconds. With `nodes` the lightest call paths beyond that number become `(other)`,
    and the profile's name says so. Otherwise raises LimitExceeded if the stacks have more than `max_frames`
    frames together.
    """
    windows = select_windows(context, sides[0])
    provenance = _build_provenance(context, sides, [windows], kind, name, stack_filter)
    weights = _load_weights(context, windows, kind, stack_filter)
    if nodes is None:
        rows, title = (
            list(_limit_frames(_merge_stack_rows(context, windows, weights, lines=lines), max_frames)),
            name,
        )
    else:
        rows, dropped = _prune_stacks(context, windows, weights, lines=lines, nodes=nodes)
        title = f"{name} · {dropped:,} small call paths in (other)" if dropped else name
    content = write_speedscope(rows, title, EXPORTER, provenance)
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
    """Export a flame graph as a self-contained SVG file."""
    windows = select_windows(context, sides[0])
    provenance = _build_provenance(context, sides, [windows], kind, name, stack_filter)
    weights = _load_weights(context, windows, kind, stack_filter)
    call_tree = build_call_tree(context, [(windows, weights)], lines=lines, max_nodes=DEFAULT_MAX_NODES)
    context.deadline.remaining()
    times = [us * 1000 for us in call_tree.microseconds[0].tolist()]
    samples = [column.tolist() for column in call_tree.samples]
    tree = Tree(call_tree.names, call_tree.level.tolist(), call_tree.name.tolist(), samples, [times])
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
    write: Callable[..., bytes] = write_pprof,
) -> ExportedProfile:
    """Export a gzipped profile for `go tool pprof`, or another that `write` writes.

    Each sample has its state as a label. Raises LimitExceeded if its stacks have more than `max_frames`
    frames together.
    """
    windows = select_windows(context, sides[0])
    rows = list(
        _limit_frames(_iter_state_rows(context, windows, kind, stack_filter, lines=lines), max_frames)
    )
    context.deadline.remaining()
    provenance = _build_provenance(context, sides, [windows], kind, name, stack_filter)
    content = write(rows, provenance, period_ns=_compute_period_ns(windows.table["period_ns"], provenance))
    return ExportedProfile(content, provenance, build_basis([windows], kind, context.unreadable_count))


def encode_profile(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    *,
    max_frames: int,
    stack_filter: StackFilter,
    files_in_names: bool,
) -> bytes:
    """Encode a profile in pprof whose samples have their time alone, with lines.

    Raises LimitExceeded if its stacks have more than `max_frames` frames together.
    """
    windows = select_windows(context, query)
    rows = list(_limit_frames(_iter_state_rows(context, windows, kind, stack_filter, lines=True), max_frames))
    context.deadline.remaining()
    provenance = _build_provenance(context, [query], [windows], kind, str(query.selector), stack_filter)
    period_ns = _compute_period_ns(windows.table["period_ns"], provenance)
    return encode_pprof(
        rows, provenance, period_ns=period_ns, with_counts=False, files_in_names=files_in_names
    )


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
    """Export the functions of one side or two with their costs, as CSV.

    Functions with the most self time on any side come first. Raises LimitExceeded for more than `max_rows`
    functions.
    """
    windows_by_side = select_side_windows(context, sides)
    costs_by_frame = compute_costs(
        context,
        [(windows, _load_weights(context, windows, kind, stack_filter)) for windows in windows_by_side],
    )
    if len(costs_by_frame) > max_rows:
        raise LimitExceeded(
            f"this profile has {len(costs_by_frame):,} functions, and a table may have {max_rows:,}",
            hint="Ask for less (a narrower selector, a shorter range), or raise the collector's --max-rows.",
        )
    heaviest = sorted(
        costs_by_frame.items(), key=lambda item: (-max(cost.self_ns for cost in item[1]), item[0])
    )
    provenance = _build_provenance(context, sides, windows_by_side, kind, name, stack_filter)
    return ExportedProfile(
        write_csv(heaviest, provenance, with_comments=with_comments),
        provenance,
        build_basis(windows_by_side, kind, context.unreadable_count),
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
    """Export a page with the flame graph, or with the comparison and its verdict.

    With `states` the page shows the states of each node separately.
    """
    side_options = comparison_options if len(sides) > 1 else None
    build_flame_graph = partial(
        query_flame_graph, context, sides, kind, lines=lines, nodes=nodes, max_nodes=max_nodes
    )
    flame_graph = build_flame_graph(states=states, stack_filter=stack_filter, comparison_options=side_options)
    side_provenances = [
        _build_side_provenance(query, summary)
        for query, summary in zip(sides, flame_graph["sides"], strict=True)
    ]
    provenance = Provenance(name, kind.value, EXPORTER, side_provenances, _describe_filter(stack_filter))
    profile = json.dumps(
        {"about": provenance.to_json(), "flame": flame_graph}, separators=(",", ":")
    ).encode()
    context.deadline.remaining()
    return ExportedProfile(write_html(template.text, provenance, profile), provenance, flame_graph["basis"])


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
    """Yield lines with two counts each, sorted by stack."""
    counts_by_side = [
        dict(line[:-1].rpartition(" ")[::2] for line in render_folded_lines(counts, kind, states=states))
        for counts in sides
    ]
    for stack in sorted(counts_by_side[0].keys() | counts_by_side[1].keys()):
        yield f"{stack} {counts_by_side[0].get(stack, 0)} {counts_by_side[1].get(stack, 0)}\n"


def _load_weights(
    context: QueryContext,
    windows: SelectedWindows,
    kind: ProfileType,
    stack_filter: StackFilter,
    *states: str,
) -> StackWeights:
    """Load the weights of a profile type, in all states or only in `states`.

    Only stacks that `stack_filter` accepts count.
    """
    return apply_filter(
        context, windows, weigh_stacks(sum_stacks(context, windows), kind, states or STATES), stack_filter
    )


def _build_provenance(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    windows_by_side: Sequence[SelectedWindows],
    kind: ProfileType,
    name: str,
    stack_filter: StackFilter,
) -> Provenance:
    side_provenances = []
    for query, windows in zip(sides, windows_by_side, strict=True):
        summary = summarize_side(query, windows, kind)
        if windows.endpoint_matchers or not stack_filter.accepts_all:
            weights = _load_weights(context, windows, kind, stack_filter)
            summary = narrow_summary(summary, windows, weights, stack_filter)
        side_provenances.append(_build_side_provenance(query, summary))
    return Provenance(name, kind.value, EXPORTER, side_provenances, _describe_filter(stack_filter))


def _describe_filter(stack_filter: StackFilter) -> str:
    """Describe a stack filter in words; empty if it accepts all stacks."""
    min_depth, max_depth = stack_filter.min_depth, stack_filter.max_depth
    words = [f"at least {min_depth} frames deep"] if min_depth else []
    words += [f"at most {max_depth} frames deep"] if max_depth else []
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
    """Return the sampling period, or its mean over all samples if windows differ."""
    distinct = to_ints(pc.unique(periods))
    if len(distinct) == 1:
        return distinct[0]
    side = provenance.sides[0]
    return round(side.seconds * 1e9 / side.samples) if side.samples else 0


def _limit_frames(stack_rows: Iterable[AnyRow], max_frames: int) -> Iterator[AnyRow]:
    """Yield the same rows up to a limit of frames.

    Raises LimitExceeded once their stacks have more than `max_frames` frames together.
    """
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
    """Yield each distinct stack once, with its samples and time."""
    times: dict[tuple[str, ...], tuple[int, int]] = {}
    for frames, samples, ns in iter_stack_rows(context, windows, weights, lines=lines):
        key = tuple(frames)
        previous = times.get(key, (0, 0))
        times[key] = previous[0] + samples, previous[1] + ns
    yield from ((frames, *weight) for frames, weight in times.items())


def _iter_state_rows(
    context: QueryContext,
    windows: SelectedWindows,
    kind: ProfileType,
    stack_filter: StackFilter,
    *,
    lines: bool,
) -> Iterator[StateRow]:
    """Yield each distinct stack once per state, with its samples and time."""
    for state in STATES_BY_TYPE[kind]:
        weights = _load_weights(context, windows, kind, stack_filter, state)
        for frames, samples, ns in _merge_stack_rows(context, windows, weights, lines=lines):
            yield StateRow(frames, state, samples, ns)


def _prune_stacks(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, *, lines: bool, nodes: int
) -> tuple[list[StackRow], int]:
    """Return the stacks of the pruned tree, and the number of call paths in `(other)`."""
    tree = build_call_tree(context, [(windows, weights)], lines=lines, max_nodes=nodes)
    stacks: list[StackRow] = []
    path: list[str] = []
    columns = (tree.level, tree.name, tree.samples[0], tree.microseconds[0])
    for level, code, samples, us in zip(*(column.tolist() for column in columns), strict=True):
        del path[max(level - 1, 0) :]
        if level:
            path.append(tree.names[code])
            if samples:
                stacks.append((tuple(path), samples, us * 1000))
    return stacks, tree.pruned_nodes
