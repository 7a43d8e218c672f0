"""Compares two recordings by their samples alone, in the form in which the collector answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_cli.compare.comparison_model import CHANGED
from sidelight_cli.compare.reports.formatting import minutes
from sidelight_cli.compare.sample_counts import Counted, Name
from sidelight_cli.compare.sampling_noise import (
    FDR,
    Level,
    benjamini_hochberg,
    effect,
    mean,
    quantile,
    quiet,
    rate,
    share,
)
from sidelight_model.change import percent, short
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.frames import Frame
from sidelight_model.gates import FUNCTIONS, TIMES, Condition, judge

MOST_FUNCTIONS: Final = 10_000
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_WHAT: Final = {ProfileType.CPU: "CPU", ProfileType.WALL: "thread", ProfileType.GIL: "GIL"}
Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two recordings of one type; `seconds` are how long each was recorded, where that is known."""

    a: Counted
    b: Counted
    kind: ProfileType
    seconds: tuple[float, float] | None
    level: Level

    @property
    def empty(self) -> list[str]:
        return [name for name, side in zip("AB", (self.a, self.b), strict=True) if not side.samples]

    @property
    def whole(self) -> float:
        """What all samples of A are, in the unit of rates."""
        return self.a.samples / self.seconds[0] if self.seconds else 1.0

    def effect(self, a: int, b: int) -> Told:
        """So many samples of B against so many of A: per second, or as shares of all samples."""
        if self.seconds:
            return effect(rate(a, self.seconds[0]), rate(b, self.seconds[1]), self.level)
        return effect(share(a, self.a.samples), share(b, self.b.samples), self.level)


def compare(pair: Pair, conditions: Sequence[Condition], most: int = MOST_FUNCTIONS) -> Told:
    """The answer that a collector would give, as far as samples alone can tell.

    Of more than `most` functions the heaviest are judged; conditions are about all of them.
    """
    checks = [_one_run(), *_states(pair)]
    refused = any(check["severity"] == "blocking" for check in checks)
    whole = pair.effect(pair.a.samples, pair.b.samples) if pair.seconds and not pair.empty else None
    functions = _functions(pair, most)
    direction = "no_data" if whole is None else whole["direction"]
    verdict: Told = {
        "summary": _sentence(pair, whole, functions),
        "direction": "not_comparable" if refused else direction,
        "rate": whole,
        "idle": _idle(pair),
        "depth": _depth(pair),
        "loop": None,
        "thread_kinds": [],
        "checks": checks,
        "explanation": {"share": None, "paths": [], "functions": []},
        "functions": functions,
        "functions_total": len({*pair.a.total, *pair.b.total}),
        "method": _method(pair),
        "required": _more(pair, whole),
    }
    verdict["conditions"] = [_judged(pair, condition, verdict, refused=refused) for condition in conditions]
    return {
        "type": pair.kind.value,
        "sides": [_side(pair, at, side) for at, side in enumerate((pair.a, pair.b))],
        "verdict": verdict,
        "basis": {},
    }


def _judged(pair: Pair, condition: Condition, verdict: Told, *, refused: bool) -> Told:
    found = {"direction": "not_comparable"} if refused else _subject(pair, condition, verdict)
    state, sentence = judge(condition, found, whole=pair.whole)
    return {"condition": str(condition), "state": state, "summary": sentence, "effect": found}


def _subject(pair: Pair, condition: Condition, verdict: Told) -> Told | None:
    """The effect of what a condition is about."""
    if pair.empty:
        return {"direction": "no_data"}
    subject = condition.subject
    if subject in FUNCTIONS:
        found = (side.matching(condition.accepts, own=subject == "self") for side in (pair.a, pair.b))
        a, b = found
        return pair.effect(a, b) if a or b else None
    if subject in TIMES:
        kind = pair.kind if subject == "rate" else ProfileType(subject)
        return pair.effect(pair.a.states.of(kind), pair.b.states.of(kind)) if pair.seconds else None
    if subject == "idle":
        return verdict["idle"]  # type: ignore[no-any-return]
    if subject == "depth.max":
        a, b = verdict["depth"]["max"]
        return {"baseline": a, "comparison": b, "delta": b - a}
    return verdict["depth"][subject.removeprefix("depth.")]  # type: ignore[no-any-return]


def _functions(pair: Pair, most: int) -> Told:
    """The functions' effects in columns, what changed first, then the largest difference of total."""
    a, b = pair.a.total, pair.b.total
    names = sorted({*a, *b}, key=lambda name: (-max(a.get(name, 0), b.get(name, 0)), name))[:most]
    columns = {}
    for of, in_a, in_b in (("self", pair.a.own, pair.b.own), ("total", a, b)):
        columns[of] = _family(pair, names, in_a, in_b)
    order = sorted(
        range(len(names)),
        key=lambda at: (
            not any(columns[of][at]["direction"] in CHANGED for of in columns),
            -abs(columns["total"][at]["delta"]),
            names[at],
        ),
    )
    told: Told = {
        "function": [names[at][0] for at in order],
        "file": [names[at][1] for at in order],
        "renamed_from": [None] * len(order),
    }
    for of, effects in columns.items():
        keys = effects[0] if effects else ()
        told[of] = {key: [effects[at][key] for at in order] for key in keys}
    return told


def _family(pair: Pair, names: Sequence[Name], a: Mapping[Name, int], b: Mapping[Name, int]) -> list[Told]:
    """The effects of functions that are tested together: changed is only what has q at most FDR.

    Functions that no sample ended in are not tested: they would make all others look surer.
    """
    if pair.empty:
        nothing = dict.fromkeys(
            ("low", "high", "relative", "relative_low", "relative_high", "p", "min_detectable_effect")
        )
        blank = {"baseline": 0.0, "comparison": 0.0, "delta": 0.0, **nothing, "direction": "no_data"}
        return [{**blank, "q": None, "pods_agreeing": None, "pods_total": None} for _ in names]
    effects = [pair.effect(a.get(name, 0), b.get(name, 0)) for name in names]
    seen = [at for at, name in enumerate(names) if a.get(name) or b.get(name)]
    found = benjamini_hochberg([effects[at]["p"] for at in seen])
    chances: list[float | None] = [None] * len(names)
    for at, q in zip(seen, found, strict=True):
        chances[at] = q
        if q > FDR and effects[at]["direction"] in CHANGED:
            effects[at]["direction"] = quiet(effects[at], pair.level)
    return [
        {**one, "q": q, "pods_agreeing": None, "pods_total": None}
        for one, q in zip(effects, chances, strict=True)
    ]


def _idle(pair: Pair) -> Told | None:
    states = [side.states for side in (pair.a, pair.b)]
    if not all(one.wall for one in states) or not any(one.idle for one in states):
        return None
    a, b = (share(one.idle, one.wall) for one in states)
    return effect(a, b, pair.level)


def _depth(pair: Pair) -> Told | None:
    if pair.empty:
        return None
    a, b = pair.a.depths, pair.b.depths
    told: Told = {"mean": effect(mean(a), mean(b), pair.level)}
    for name, part in QUANTILES.items():
        told[name] = effect(quantile(a, part), quantile(b, part), pair.level)
    return told | {"max": [max(a), max(b)], "gap": None}


def _one_run() -> Told:
    return {
        "name": "few_pods",
        "state": "mismatch",
        "severity": "warn",
        "reason": "few_pods",
        "text": "One recording a side: the intervals are counting noise alone, and runs of one program "
        "differ more than that.",
        "hint": "Record several runs, or compare what sidecars shipped, to see how far runs and pods differ.",
    }


def _states(pair: Pair) -> list[Told]:
    """Whether the same states were recorded: a file without idle samples has no waiting in it."""
    lacking = {
        state: [
            name for name, side in zip("AB", (pair.a, pair.b), strict=True) if not getattr(side.states, state)
        ]
        for state in Counts._fields
        if state != "running"
    }
    checks = []
    needed = {ProfileType.WALL: "idle", ProfileType.GIL: "gil"}.get(pair.kind)
    for state, sides in lacking.items():
        if len(sides) == 1:
            other = "B" if sides == ["A"] else "A"
            checks.append(
                {
                    "name": "states",
                    "state": "mismatch",
                    "severity": "blocking" if state == needed else "warn",
                    "reason": "states",
                    "text": f"{other} has [{state}] samples, {sides[0]} has none.",
                    "hint": "Record both alike: py-spy with --idle or without, the same --type.",
                }
            )
    return checks


def _side(pair: Pair, at: int, side: Counted) -> Told:
    return {
        "selector": side.name,
        "from": None,
        "until": None,
        "samples": side.samples,
        "windows": 1 if side.samples else 0,
        "pods": 1 if side.samples else 0,
        "pod_seconds": pair.seconds[at] if pair.seconds else 0.0,
    }


def _method(pair: Pair) -> Told:
    level = pair.level
    told: Told = {"alpha": level.alpha, "analysis_index": level.look, "alpha_spent": level.spent}
    told["min_effect"] = level.detect
    return told | {"fdr": FDR, "unit": "second" if pair.seconds else "sample", "noise": "counting"}


def _more(pair: Pair, whole: Told | None) -> Told | None:
    """Counting noise shrinks with the square root of time."""
    if whole is None or pair.seconds is None or not whole["min_detectable_effect"]:
        return None
    times = (whole["min_detectable_effect"] / pair.level.detect) ** 2 - 1
    return {"minutes": math.ceil(times * max(pair.seconds) / 6) / 10, "pods": None} if times > 0 else None


def _sentence(pair: Pair, whole: Told | None, functions: Told) -> str:
    what = _WHAT[pair.kind]
    if pair.empty:
        have = "have" if len(pair.empty) > 1 else "has"
        return f"{' and '.join(pair.empty)} {have} no {what} samples, so there is nothing to compare."
    if whole is not None:
        numbers = f"{short(whole['baseline'])} → {short(whole['comparison'])} samples per second"
        if whole["direction"] in CHANGED:
            part = whole["relative"]
            by = f"{percent(abs(part))} {'more' if part > 0 else 'less'}"
            return f"B takes {by} {what} time than A ({numbers})."
        if whole["direction"] == "unchanged":
            return f"{what} time: no detectable change ({numbers})."
        lack = _more(pair, whole)
        said = f"Not enough data to tell whether {what} time changed ({numbers})"
        if lack is None:
            return f"{said}."
        return f"{said}: about {minutes(lack['minutes'])} more of both would show {_detect(pair)}."
    changed = _changed(functions)
    tested = f"{len(functions['function']):,} functions"
    if not changed:
        return f"No function of {tested} takes a detectably larger or smaller share of {what} samples in B."
    at = max(
        changed, key=lambda one: (abs(functions["self"]["delta"][one]), abs(functions["total"]["delta"][one]))
    )
    of = "self" if functions["self"]["direction"][at] in CHANGED else "total"
    name = Frame(functions["function"][at], functions["file"][at]).text
    from_, to = (percent(functions[of][side][at]) for side in ("baseline", "comparison"))
    number = "1 function takes" if len(changed) == 1 else f"{len(changed):,} functions take"
    return f"{number} another share of {what} samples in B; most of all {name}: {from_} → {to} ({of})."


def _detect(pair: Pair) -> str:
    return f"{pair.level.detect * 100:.4g} %"


def _changed(functions: Told) -> list[int]:
    both = zip(functions["self"].get("direction", ()), functions["total"].get("direction", ()), strict=True)
    return [at for at, (own, total) in enumerate(both) if own in CHANGED or total in CHANGED]
