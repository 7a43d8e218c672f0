"""Find where the change between two recordings starts.

The search is the collector's (`sidelight_model.culprits`). Call paths are tested as functions are: as one
family, by the counting noise of their samples. Call paths too small for a relevant change are not tested, so
their number costs the others nothing (independent filtering by the mean of both sides: Bourgon, Gentleman and
Huber, Proceedings of the National Academy of Sciences 107, 2010).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sidelight_model.change import Direction
from sidelight_model.culprits.changed_tree import NODE_CHANGED, ChangedTree, FunctionTest
from sidelight_model.culprits.culprit_row import CulpritJson, build_culprit_row
from sidelight_model.culprits.culprit_search import Culprit, find_culprits
from sidelight_model.frames import Frame
from sidelight_model.recordings.recording_pair import CHANGED_DIRECTIONS, JsonObject, RecordingPair
from sidelight_model.recordings.sample_counts import FunctionKey, SampleCounts
from sidelight_model.recordings.sampling_noise import CommonShift
from sidelight_model.tree import StackRow, Tree, build_tree_from_rows, compute_totals


def find_recording_culprits(
    pair: RecordingPair, functions: Mapping[str, Any], common: CommonShift, whole: float | None
) -> JsonObject:
    """Find the functions where the change starts.

    The result has the form of the collector's response. `functions` are the columns of the functions'
    effects. `whole` is the change of the total, or None if it did not change.
    """
    tests = _list_tests(functions)
    if not any(test.self_sign or test.total_sign for test in tests.values()):
        return {"share": None, "rows": []}
    texts: dict[FunctionKey, str] = {}
    tree = build_tree_from_rows([_list_rows(side, texts) for side in (pair.baseline, pair.comparison)])
    own = list(zip(*tree.self_samples, strict=True))
    of_a, of_b = pair.per_sample
    found = find_culprits(
        ChangedTree(
            tree.names,
            tree.level,
            tree.name_index,
            [b * of_b - a * of_a for a, b in own],
            flag_changed_nodes(pair, tree, common),
        ),
        tests,
        whole=whole,
        min_delta=pair.min_relevant_delta,
    )
    rows = []
    for culprit in found.rows:
        a, b = (sum(own[node][side] for node in culprit.nodes) for side in range(2))
        rows.append(_build_row(pair, culprit, pair.compute_effect(a, b, common)))
    return {"share": found.share, "rows": rows}


def _list_rows(side: SampleCounts, texts: dict[FunctionKey, str]) -> Iterator[StackRow]:
    """List the stacks as texts of frames without lines.

    `texts` are those of the functions so far.
    """
    for functions, samples in side.stacks:
        for function in functions:
            if function not in texts:
                texts[function] = Frame(*function).text
        yield [texts[function] for function in functions], samples, 0


def flag_changed_nodes(pair: RecordingPair, tree: Tree, common: CommonShift) -> list[int]:
    """Flag the call paths whose total changed."""
    totals = list(zip(compute_totals(tree, 0), compute_totals(tree, 1), strict=True))
    (of_a, of_b), min_relevant = pair.per_sample, pair.min_relevant_delta
    tested = [node for node, (a, b) in enumerate(totals) if node and a * of_a + b * of_b >= min_relevant]
    effects = pair.compute_family_effects([totals[node] for node in tested], common)
    flags = [0] * len(tree)
    for node, effect in zip(tested, effects, strict=True):
        if effect["direction"] in CHANGED_DIRECTIONS:
            flags[node] = NODE_CHANGED
    return flags


def _list_tests(functions: Mapping[str, Any]) -> dict[str, FunctionTest]:
    """List the tests of functions by frame."""
    frames = map(Frame, functions["function"], functions["file"])
    both = [functions[of] for of in ("self", "total")]
    directions = (map(Direction, of.get("direction", ())) for of in both)
    q_values = ([1.0 if q is None else q for q in of.get("q", ())] for of in both)
    columns = zip(*directions, *q_values, strict=True)
    return {frame.text: FunctionTest(*tests) for frame, tests in zip(frames, columns, strict=True)}


def _build_row(pair: RecordingPair, culprit: Culprit, effect: JsonObject) -> CulpritJson:
    frame = Frame.parse(culprit.frame)
    baseline = pair.baseline.total_samples.get((frame.function, frame.file), 0) * pair.per_sample[0]
    return build_culprit_row(
        culprit, baseline, delta=effect["delta"], interval=(effect["low"], effect["high"])
    )
