"""What a pipeline may write as a condition, and what becomes of it at its edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.gates import (
    DEPTH_SUBJECTS,
    MAX_CHARACTERS,
    TIME_SUBJECTS,
    BadCondition,
    Condition,
    GateStatus,
    combine_statuses,
    compute_min_effect,
    evaluate_condition,
    parse_condition,
)

THRESHOLDS = st.one_of(st.integers(0, 10**6).map(float), st.floats(0, 1000).map(lambda one: round(one, 4)))
SIGNS = st.sampled_from([1, -1])
PATTERNS = st.one_of(
    st.sampled_from(["json.*", "<lambda>", "<module>", "a>+3%", "x<-1", "loads (.*json.*)", "f: g", "(a|b)"]),
    st.text(st.sampled_from("abc<>+-%: .*"), min_size=1).map(str.strip).filter(bool),
)


def _anything(_: str) -> None:
    """Takes every pattern: what is looked at here is the grammar around it."""


CONDITIONS = st.one_of(
    st.builds(
        Condition,
        st.sampled_from(TIME_SUBJECTS),
        st.just(""),
        SIGNS,
        THRESHOLDS,
        st.sampled_from(["%", "pp", "ms", "s"]),
    ),
    st.builds(Condition, st.just("idle"), st.just(""), SIGNS, THRESHOLDS, st.sampled_from(["%", "pp"])),
    st.builds(
        Condition, st.sampled_from(DEPTH_SUBJECTS), st.just(""), SIGNS, THRESHOLDS, st.sampled_from(["", "%"])
    ),
    st.builds(
        Condition,
        st.sampled_from(["function", "self"]),
        PATTERNS,
        SIGNS,
        THRESHOLDS,
        st.sampled_from(["%", "pp", "ms", "s"]),
    ),
    st.builds(Condition, st.just("share"), PATTERNS, SIGNS, THRESHOLDS, st.sampled_from(["%", "pp"])),
)


@given(CONDITIONS)
def test_reading_undoes_writing(condition: Condition) -> None:
    assert parse_condition(str(condition), _anything) == condition


@given(CONDITIONS, st.lists(st.sampled_from(["", " ", "  "]), min_size=4, max_size=4))
def test_blanks_between_the_parts_mean_nothing(condition: Condition, blanks: list[str]) -> None:
    subject = f"{condition.subject}:{condition.pattern}" if condition.pattern else condition.subject
    tail = str(condition).removeprefix(subject)
    spaced = f"{blanks[0]}{subject}{blanks[1]}{tail[0]}{blanks[2]}{tail[1:]}{blanks[3]}"
    assert parse_condition(spaced, _anything) == condition


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_is_refused_at_a_position_in_it(text: str) -> None:
    try:
        found = parse_condition(text)
    except BadCondition as error:
        refused, found = error, None
    if found is None:
        assert 0 <= refused.position <= len(text)
    else:
        assert parse_condition(str(found)) == found


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "a subject was expected: rate, cpu, wall, gil, gil_wait, off_cpu, tasks, idle, depth.mean"),
        ("cpus>+3%", 0, "'cpus' is not one of rate, cpu"),
        ("cpu", 3, "`>` or `<` was expected"),
        ("cpu=3%", 3, "`>` or `<` was expected"),
        ("cpu>", 4, "a number was expected"),
        ("cpu>+x%", 4, "a number was expected"),
        ("cpu>-3%", 4, "`+` was expected"),
        ("cpu<3%", 4, "`-` was expected"),
        ("cpu<+3%", 5, "`-` was expected"),
        ("cpu>+3", 6, "% or pp or ms or s was expected"),
        ("cpu>+3q", 6, "% or pp or ms or s was expected"),
        ("idle<-5ms", 7, "% or pp was expected"),
        ("share:f>+5ms", 10, "% or pp was expected"),
        ("share:f>+5", 10, "% or pp was expected"),
        ("share>+1pp", 5, "such as share:json.*"),
        ("share:>+1pp", 6, "a pattern was expected, such as share:json.*"),
        ("depth.p95>+5pp", 12, "no unit (frames) or % was expected"),
        ("cpu>+3% or so", 8, "nothing may follow"),
        ("cpu>+1234567890123456%", 5, "more than 15 digits"),
        ("function>+1%", 8, "such as function:json.*"),
        ("self:>+1%", 5, "a pattern was expected, such as self:json.*"),
        ("function:json.*", 15, "`>` or `<` was expected"),
        ("function:(>+1%", 9, "the regular expression cannot be read"),
        ("x" * (MAX_CHARACTERS + 1), MAX_CHARACTERS, f"longer than {MAX_CHARACTERS} characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_was_expected_where(
    text: str, position: int, expected: str
) -> None:
    with pytest.raises(BadCondition) as refused:
        parse_condition(text)
    assert expected in refused.value.message
    assert f"position {position}:" in refused.value.message
    assert refused.value.position == position
    assert "cpu>+3%" in refused.value.hint


def test_the_longest_condition_is_read() -> None:
    text = "function:" + "x" * (MAX_CHARACTERS - len("function:>+1%")) + ">+1%"
    assert len(text) == MAX_CHARACTERS
    assert parse_condition(text).threshold == 1


@pytest.mark.parametrize(
    ("text", "function", "file", "accepted"),
    [
        ("function:json.*>+1%", "json_dumps", "x.py", True),
        ("function:json.*>+1%", "my_json", "x.py", False),
        ("function:<lambda>>+1%", "<lambda>", "x.py", True),
        ("function:loads (.*json/decoder.py)>+1%", "loads", "/usr/lib/json/decoder.py", True),
        ("function:loads (.*json/decoder.py)>+1%", "loads", "pickle.py", False),
        ("function:loads (.*json/decoder.py)>+1%", "dumps", "/usr/lib/json/decoder.py", False),
    ],
)
def test_a_pattern_matches_the_whole_name_and_if_wanted_the_whole_file(
    text: str, function: str, file: str, accepted: bool
) -> None:
    assert parse_condition(text).accepts(function, file) is accepted


def effect(
    a: float = 1.0,
    b: float = 1.0,
    half: float = 0.01,
    direction: str = "unchanged",
    detectable: float | None = 0.014,
) -> dict[str, Any]:
    """An Effect whose interval reaches `half` to both sides of the difference."""
    told: dict[str, Any] = {
        "baseline": a,
        "comparison": b,
        "delta": b - a,
        "low": b - a - half,
        "high": b - a + half,
    }
    told |= {"direction": direction, "min_detectable_effect": detectable if a else None, "p": 0.5}
    for name in ("delta", "low", "high"):
        relative = told[name] / a if a else None
        told["relative" if name == "delta" else f"relative_{name}"] = relative
    return told


@pytest.mark.parametrize(
    ("text", "given", "state", "sentence"),
    [
        (
            "cpu>+3%",
            effect(b=1.05, direction="increased"),
            GateStatus.REGRESSED,
            "CPU time: +5.0 % (+4.0 % to +6.0 %), beyond +3 %.",
        ),
        (
            "cpu>+3%",
            effect(b=1.01, half=0.005),
            GateStatus.PASS,
            "CPU time: +1.0 % (+0.5 % to +1.5 %), not beyond +3 %.",
        ),
        # outside noise, and allowed
        ("cpu>+3%", effect(b=1.025, direction="increased"), GateStatus.PASS, "not beyond"),
        # just the threshold is not beyond it
        (
            "cpu>+50%",
            effect(b=1.5, half=0.0, direction="increased", detectable=0.0),
            GateStatus.PASS,
            "not beyond",
        ),
        # beyond the threshold, but within noise, and too little was seen
        (
            "cpu>+3%",
            effect(b=1.05, half=0.2, direction="inconclusive", detectable=0.3),
            GateStatus.INCONCLUSIVE,
            "not enough",
        ),
        # the interval reaches over the threshold, but a change as large would have been seen
        ("cpu>+3%", effect(b=1.025, direction="unchanged", detectable=0.03), GateStatus.PASS, "not beyond"),
        (
            "cpu>+3%",
            effect(b=0.5, half=0.9, direction="inconclusive", detectable=1.3),
            GateStatus.INCONCLUSIVE,
            "not enough",
        ),
        (
            "cpu>+3%",
            effect(b=0.5, half=9, direction="decreased", detectable=13.0),
            GateStatus.PASS,
            "not beyond",
        ),
        ("cpu<-3%", effect(b=0.9, direction="decreased"), GateStatus.REGRESSED, "beyond \u22123 %"),
        ("cpu<-3%", effect(b=1.2, direction="increased"), GateStatus.PASS, "not beyond \u22123 %"),
        ("cpu<-3%", effect(b=0.99), GateStatus.PASS, "not beyond"),
        (
            "cpu<-3%",
            effect(b=0.99, half=0.1, direction="inconclusive", detectable=0.2),
            GateStatus.INCONCLUSIVE,
            "not enough",
        ),
        (
            "cpu>+30ms",
            effect(b=1.05, direction="increased"),
            GateStatus.REGRESSED,
            "+50.0 ms (+40.0 ms to +60.0 ms)",
        ),
        ("cpu>+0.06s", effect(b=1.05, direction="increased"), GateStatus.PASS, "not beyond +0.06 s"),
        (
            "idle<-5pp",
            effect(a=0.5, b=0.375, direction="decreased"),
            GateStatus.REGRESSED,
            "\u221212.5 points",
        ),
        (
            "idle<-5pp",
            effect(a=0.5, b=0.47, direction="decreased"),
            GateStatus.PASS,
            "not beyond \u22125 points",
        ),
        ("idle<-5%", effect(a=0.5, b=0.47, direction="decreased"), GateStatus.REGRESSED, "\u22126.0 %"),
        (
            "depth.p95>+5",
            effect(a=40, b=48, half=2, direction="increased"),
            GateStatus.REGRESSED,
            "+8.00 frames",
        ),
        (
            "depth.p95>+5",
            effect(a=40, b=44, half=2, direction="increased", detectable=0.07),
            GateStatus.PASS,
            "+4.00",
        ),
        (
            "depth.p95>+5",
            effect(a=40, b=44, half=2, direction="increased", detectable=0.2),
            GateStatus.INCONCLUSIVE,
            "not en",
        ),
        (
            "depth.max>+5",
            {"baseline": 40, "comparison": 46},
            GateStatus.REGRESSED,
            "+6.00 frames (40.0 \u2192 46.0), beyond +5",
        ),
        ("depth.max>+5", {"baseline": 40, "comparison": 45}, GateStatus.PASS, "not beyond"),
        ("depth.max<-5", {"baseline": 40, "comparison": 34}, GateStatus.REGRESSED, "\u22126.00 frames"),
        # nothing is allowed: only what the model calls a change, or no change, can be judged
        ("cpu>+0%", effect(b=1.02, direction="increased"), GateStatus.REGRESSED, "beyond 0 %"),
        ("cpu>+0%", effect(b=1.002), GateStatus.PASS, "no detectable change"),
        ("cpu>+0%", effect(b=1.002, direction="inconclusive"), GateStatus.INCONCLUSIVE, "not enough"),
        # what A has not
        (
            "function:f>+500%",
            effect(a=0, b=0.1, direction="new"),
            GateStatus.REGRESSED,
            "A has none, B has some",
        ),
        (
            "function:f>+500%",
            effect(a=0, b=0.1, direction="inconclusive"),
            GateStatus.INCONCLUSIVE,
            "A has none",
        ),
        ("function:f>+500ms", effect(a=0, b=0.1, direction="new"), GateStatus.PASS, "not beyond +500 ms"),
        ("function:f<-1%", effect(a=0.1, b=0, direction="removed"), GateStatus.REGRESSED, "\u2212100.0 %"),
        ("function:f>+1%", effect(a=0, b=0), GateStatus.PASS, "time of f: on neither side."),
        ("function:f>+1%", None, GateStatus.PASS, "on neither side"),
        ("idle>+1%", None, GateStatus.INCONCLUSIVE, "nothing was measured"),
        ("cpu>+3%", {"direction": "no_data"}, GateStatus.INCONCLUSIVE, "a side was not watched"),
        ("cpu>+3%", {"direction": "not_comparable"}, GateStatus.NOT_COMPARABLE, "not comparable"),
    ],
)
def test_a_condition_is_judged(
    text: str, given: dict[str, Any] | None, state: GateStatus, sentence: str
) -> None:
    found, said = evaluate_condition(parse_condition(text), given)
    assert found is state
    assert sentence in said


def test_points_of_a_function_are_of_the_whole_of_a() -> None:
    grown = effect(a=0.1, b=0.14, half=0.005, direction="increased")
    assert (
        evaluate_condition(parse_condition("function:f>+3pp"), grown, total_rate=1.0)[0]
        is GateStatus.REGRESSED
    )
    assert evaluate_condition(parse_condition("function:f>+3pp"), grown, total_rate=2.0)[0] is GateStatus.PASS
    assert evaluate_condition(parse_condition("function:f>+3pp"), effect(a=0.1, b=0.1)) == (
        GateStatus.INCONCLUSIVE,
        "time of f: the whole time of A is not known: not enough data to distinguish it from +3 points.",
    )


def test_points_of_a_share_are_of_each_sides_own_profile() -> None:
    grown = effect(a=0.10, b=0.12, half=0.005, direction="increased")
    for total_rate in (0.0, 0.5, 3.0):
        status, sentence = evaluate_condition(
            parse_condition("share:json.*>+1pp"), grown, total_rate=total_rate
        )
        assert status is GateStatus.REGRESSED
        assert sentence == ("share of json.*: +2.00 points (+1.50 points to +2.50 points), beyond +1 points.")
    assert evaluate_condition(parse_condition("share:json.*>+3pp"), grown)[0] is GateStatus.PASS
    assert evaluate_condition(parse_condition("share:json.*>+15%"), grown)[0] is GateStatus.REGRESSED
    assert evaluate_condition(parse_condition("share:json.*<-1pp"), grown)[0] is GateStatus.PASS
    assert evaluate_condition(parse_condition("share:json.*>+1pp"), None) == (
        GateStatus.PASS,
        "share of json.*: on neither side.",
    )


@pytest.mark.parametrize("basis", ["", "concurrent", "per_request", "equal_load", "composition"])
@pytest.mark.parametrize("text", ["share:f>+1pp", "share:f>+10%", "function:f>+20%", "self:f>+20%"])
def test_shares_and_relative_changes_of_functions_are_judged_on_every_basis(basis: str, text: str) -> None:
    grown = effect(a=0.10, b=0.13, half=0.005, direction="increased")
    status, sentence = evaluate_condition(parse_condition(text), grown, total_rate=2.0, basis=basis)
    assert status is GateStatus.REGRESSED
    assert ("share of f" in sentence) is (basis == "composition" or text.startswith("share"))


def test_points_of_a_function_are_points_of_the_profile_by_composition() -> None:
    grown = effect(a=0.10, b=0.14, half=0.005, direction="increased")
    condition = parse_condition("function:f>+3pp")
    assert evaluate_condition(condition, grown, total_rate=2.0)[0] is GateStatus.PASS
    status, _ = evaluate_condition(condition, grown, total_rate=2.0, basis="composition")
    assert status is GateStatus.REGRESSED
    assert compute_min_effect(condition, grown, total_rate=2.0, basis="composition") == pytest.approx(0.14)


@pytest.mark.parametrize(
    "text", ["cpu>+3%", "rate>+1pp", "wall<-3%", "gil>+5ms", "function:f>+3ms", "self:f>+0.1s"]
)
@pytest.mark.parametrize("given", [None, effect(b=9, direction="increased"), effect(b=9, direction="minor")])
def test_time_is_not_judged_by_composition_and_the_reason_names_the_remedy(
    text: str, given: dict[str, Any] | None
) -> None:
    status, sentence = evaluate_condition(parse_condition(text), given, basis="composition")
    assert status is GateStatus.INCONCLUSIVE
    assert sentence.endswith(
        ": not judged. They ran at different times and request counts are unknown. Compare the overlap, give "
        "request counts, or use a condition on function:PATTERN or share:PATTERN in % or pp."
    )
    _, sentence = evaluate_condition(
        parse_condition(text), given, basis="composition", basis_reason="The caller chose composition."
    )
    assert ": not judged. The caller chose composition. Compare the overlap" in sentence


def test_a_total_that_is_not_judged_is_inconclusive_with_the_remedy() -> None:
    total = {"baseline": 1.0, "comparison": 2.0, "direction": "not_judged", "low": None, "high": None}
    status, sentence = evaluate_condition(parse_condition("cpu>+3%"), total)
    assert status is GateStatus.INCONCLUSIVE
    assert "not judged" in sentence
    assert evaluate_condition(parse_condition("function:f>+3%"), total)[0] is GateStatus.INCONCLUSIVE


def test_idle_time_and_depth_are_judged_by_composition() -> None:
    less = effect(a=0.5, b=0.375, direction="decreased")
    assert (
        evaluate_condition(parse_condition("idle<-5pp"), less, basis="composition")[0] is GateStatus.REGRESSED
    )
    deeper = effect(a=40, b=48, half=2, direction="increased")
    assert (
        evaluate_condition(parse_condition("depth.p95>+5"), deeper, basis="composition")[0]
        is GateStatus.REGRESSED
    )


@pytest.mark.parametrize(
    ("text", "given", "status"),
    [
        # smaller than the threshold, as every minor change is where the threshold is a relevant size
        ("share:f>+1pp", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.PASS),
        ("function:f>+1pp", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.PASS),
        # absolute and below the smallest relevant size: the condition states its own
        ("share:f>+0.2pp", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("share:f>+0pp", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("share:f<-0.2pp", effect(a=0.015, b=0.01, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("function:f>+2ms", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("cpu>+0.5%", effect(b=1.007, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("depth.mean>+0.05", effect(a=20, b=20.08, half=0.01, direction="minor"), GateStatus.REGRESSED),
        # a percentage of little is below it too
        ("share:f>+10%", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("function:f>+10%", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("function:f>+60%", effect(a=0.01, b=0.015, half=0.0005, direction="minor"), GateStatus.PASS),
        ("function:f>+500%", effect(a=0, b=0.005, half=0.001, direction="minor"), GateStatus.REGRESSED),
        ("function:f<-10%", effect(a=0.005, b=0, half=0.001, direction="minor"), GateStatus.REGRESSED),
        # just the threshold is not beyond it
        ("share:f>+0.5pp", effect(a=0.5, b=0.505 - 1e-12, half=0.0, direction="minor"), GateStatus.PASS),
        # the other direction
        ("share:f>+0.2pp", effect(a=0.015, b=0.01, half=0.001, direction="minor"), GateStatus.PASS),
        ("share:f<-0.2pp", effect(a=0.01, b=0.015, half=0.001, direction="minor"), GateStatus.PASS),
    ],
)
def test_a_minor_change_fails_only_a_smaller_threshold(
    text: str, given: dict[str, Any], status: GateStatus
) -> None:
    assert evaluate_condition(parse_condition(text), given, total_rate=1.0)[0] is status


@given(SIGNS, st.floats(0.0001, 0.9), st.floats(-0.0099, 0.0099), st.floats(1, 50))
def test_no_minor_change_fails_a_threshold_of_a_relevant_size(
    sign: int, a: float, delta: float, points: float
) -> None:
    minor = effect(a, max(a + delta, 0.0), 0.0001, "minor")
    condition = Condition("share", "f", sign, points, "pp")
    assert evaluate_condition(condition, minor)[0] is not GateStatus.REGRESSED


DIRECTIONS = st.sampled_from(
    ["increased", "decreased", "new", "removed", "unchanged", "inconclusive", "minor", "not_judged"]
)
NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6), st.just(math.inf), st.just(math.nan))
EFFECTS = st.fixed_dictionaries(
    {
        "baseline": st.floats(0, 1e6),
        "comparison": st.floats(0, 1e6),
        "direction": DIRECTIONS,
        **dict.fromkeys(("delta", "low", "high", "min_detectable_effect"), NUMBERS),
        **dict.fromkeys(("relative", "relative_low", "relative_high"), NUMBERS),
    }
)


@given(CONDITIONS, EFFECTS, st.floats(0, 1e6), st.sampled_from(["", "composition"]))
def test_whatever_is_measured_there_is_one_state_and_a_sentence(
    condition: Condition, given: dict[str, Any], whole: float, basis: str
) -> None:
    state, sentence = evaluate_condition(condition, given, total_rate=whole, basis=basis)
    assert state in GateStatus
    assert sentence.endswith(".")
    assert "nan" not in sentence
    assert "inf" not in sentence


@given(CONDITIONS, st.floats(0.001, 1e3), st.floats(0.001, 1e3), st.floats(0, 1e3))
def test_only_a_change_in_the_direction_of_the_condition_regresses(
    condition: Condition, a: float, b: float, half: float
) -> None:
    outside = abs(b - a) > half
    direction = "inconclusive" if not outside else "increased" if b > a else "decreased"
    state, _ = evaluate_condition(condition, effect(a, b, half, direction, 1.4 * half / a), total_rate=1.0)
    if state is GateStatus.REGRESSED and condition.subject != "depth.max":
        assert outside
        assert (b > a) is (condition.sign > 0)


@given(
    st.sampled_from(TIME_SUBJECTS), st.floats(0.001, 1e3), st.floats(0.001, 1e3), st.floats(0, 10), THRESHOLDS
)
def test_what_regresses_at_a_threshold_regresses_at_each_lower_one(
    subject: str, a: float, b: float, half: float, threshold: float
) -> None:
    direction = "inconclusive" if abs(b - a) <= half else "increased" if b > a else "decreased"
    given = effect(a, b, half, direction, 1.4 * half / a)
    states = [
        evaluate_condition(Condition(subject, "", 1, at, "%"), given)[0]
        for at in (threshold, threshold / 2, 0.0)
    ]
    if GateStatus.REGRESSED in states:
        assert states[states.index(GateStatus.REGRESSED) :].count(GateStatus.REGRESSED) == len(
            states
        ) - states.index(GateStatus.REGRESSED)


@pytest.mark.parametrize(
    ("text", "given", "shows"),
    [
        ("cpu>+3%", effect(detectable=0.014), 1.4),
        ("cpu<-3%", effect(detectable=0.014), 1.4),
        ("cpu>+30ms", effect(a=2.0, detectable=0.014), 28.0),
        ("idle<-5pp", effect(a=0.5, detectable=0.2), 10.0),
        ("depth.p95>+5", effect(a=40, b=41, detectable=0.1), 4.0),
        ("function:f>+1%", effect(a=0, b=0.1), None),
        ("depth.max>+5", {"baseline": 40, "comparison": 41}, None),
        ("cpu>+3%", {"direction": "no_data"}, None),
        ("cpu>+3%", None, None),
        ("cpu>+3%", effect(detectable=None), None),
    ],
)
def test_what_would_have_been_seen_is_told_in_the_unit_of_the_condition(
    text: str, given: dict[str, Any] | None, shows: float | None
) -> None:
    assert compute_min_effect(parse_condition(text), given) == (
        None if shows is None else pytest.approx(shows)
    )


@given(CONDITIONS, st.floats(0.001, 1e3), st.floats(0.001, 1e3), st.floats(0.001, 1e3), st.floats(0, 2))
def test_what_would_have_been_seen_does_not_depend_on_the_estimate(
    condition: Condition, a: float, b: float, other: float, least: float
) -> None:
    one, two = (effect(a, to, 0.1, "inconclusive", least) for to in (b, other))
    assert compute_min_effect(condition, one, total_rate=1.0) == compute_min_effect(
        condition, two, total_rate=1.0
    )


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ([], GateStatus.PASS),
        (["pass", "pass"], GateStatus.PASS),
        (["pass", "inconclusive"], GateStatus.INCONCLUSIVE),
        (["inconclusive", "not_comparable"], GateStatus.NOT_COMPARABLE),
        (["not_comparable", "regressed", "inconclusive"], GateStatus.REGRESSED),
    ],
)
def test_a_pipeline_goes_by_the_worst_condition(states: list[str], found: GateStatus) -> None:
    assert combine_statuses(states) is found
