"""The messages between a sidecar and the collector: what one end writes the other reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.capture_protocol import (
    MAX_ENTRIES,
    MAX_JOBS,
    MAX_REPORTS,
    MAX_TEXT,
    MAX_TOP_FUNCTIONS,
    MAX_WORD,
    REPORTABLE_STATES,
    AgentPoll,
    AgentPollResponse,
    AgentStatus,
    BadMessage,
    CaptureJob,
    CaptureReport,
    ProcessReport,
    RequestLimits,
    SampledProcess,
    TopFunction,
)
from sidelight_model.errors import BadLabel
from sidelight_model.labels import Labels
from tests.model.strategies import FEWER, label_sets

text = st.text(max_size=MAX_TEXT)
word = st.text(max_size=MAX_WORD)
words = st.lists(word, max_size=MAX_ENTRIES).map(tuple)
whole = st.integers(0, 2**53 - 1)
amount = st.floats(0, 2**53, exclude_max=True) | whole
error_counts = st.dictionaries(word, whole, max_size=5)
capture_ids = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
agents = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)
statuses = st.builds(
    AgentStatus,
    agent=agents,
    labels=label_sets.map(lambda labels: Labels({**labels, "service": "shop"})),
    sidelight_version=word,
    sampler=word,
    limits=st.builds(RequestLimits, modes=words, max_seconds=amount, max_rate=whole),
    ready=st.booleans(),
    problem=text,
    hint=text,
    paused=st.booleans(),
    processes=st.lists(st.builds(SampledProcess, pid=whole, role=text, python_version=text), max_size=3).map(
        tuple
    ),
    node_agent=st.booleans(),
    only_capture=word,
)
process_reports = st.builds(
    ProcessReport,
    pid=whole,
    samples=whole,
    windows=whole,
    errors=error_counts,
    finished=st.booleans(),
    rate=amount,
    reduced=words,
    preroll_windows=whole,
    covered_since=st.none() | st.text(min_size=1, max_size=MAX_WORD),
    problem=text,
)
reports = st.builds(
    CaptureReport,
    capture=capture_ids,
    state=st.sampled_from(REPORTABLE_STATES),
    elapsed_seconds=amount,
    seconds=amount,
    samples=whole,
    windows=whole,
    recordings=whole,
    errors=error_counts,
    processes=st.lists(process_reports, max_size=3).map(tuple),
    top_functions=st.lists(
        st.builds(TopFunction, function=text, self_samples=whole), max_size=MAX_TOP_FUNCTIONS
    ).map(tuple),
    problem=text,
    hint=text,
)
polls = st.builds(
    AgentPoll, status=statuses, timeout_seconds=amount, reports=st.lists(reports, max_size=3).map(tuple)
)
jobs = st.builds(
    CaptureJob,
    capture=capture_ids,
    seconds=amount,
    rate=whole,
    mode=word,
    pids=st.lists(st.integers(), max_size=3).map(tuple),
    timeline=st.booleans(),
    max_recording_bytes=whole,
)
responses = st.builds(
    AgentPollResponse,
    capture_jobs=st.lists(jobs, max_size=3).map(tuple),
    stop_captures=st.lists(capture_ids, max_size=3).map(tuple),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@FEWER
@given(polls)
def test_a_poll_is_parsed_as_it_was_written(poll: AgentPoll) -> None:
    assert AgentPoll.parse(json.loads(json.dumps(poll.to_json()))) == poll


@FEWER
@given(responses)
def test_a_poll_response_is_parsed_as_it_was_written(response: AgentPollResponse) -> None:
    assert AgentPollResponse.parse(json.loads(json.dumps(response.to_json()))) == response


@FEWER
@given(polls, st.data())
def test_a_poll_with_any_other_values_is_parsed_or_refused(poll: AgentPoll, data: st.DataObject) -> None:
    raw = poll.to_json()
    for name in data.draw(st.lists(st.sampled_from(sorted(raw)), max_size=3)):
        raw[name] = data.draw(json_values)
    try:
        parsed = AgentPoll.parse(raw)
    except (BadMessage, BadLabel):
        return
    assert AgentPoll.parse(parsed.to_json()) == parsed


@FEWER
@given(json_values)
def test_any_json_is_a_poll_response_or_refused(raw: object) -> None:
    try:
        AgentPollResponse.parse(raw)
    except BadMessage:
        return


def test_a_message_is_cut_to_its_bounds() -> None:
    raw: dict[str, Any] = {
        "capture": "c_1",
        "state": "sampling",
        "problem": "x" * (MAX_TEXT + 1),
        "errors": {str(at): at for at in range(MAX_ENTRIES + 1)},
        "top_functions": [{"function": "f", "self_samples": 1}] * (MAX_TOP_FUNCTIONS + 1),
        "unknown": 1,
    }
    report = CaptureReport.parse(raw)
    assert (len(report.problem), len(report.errors)) == (MAX_TEXT, MAX_ENTRIES)
    assert len(report.top_functions) == MAX_TOP_FUNCTIONS
    poll = {"agent": "a", "labels": {"service": "shop"}, "reports": [raw] * MAX_REPORTS}
    assert len(AgentPoll.parse(poll).reports) == MAX_REPORTS
    with pytest.raises(BadMessage, match="at most 64"):
        AgentPoll.parse({**poll, "reports": [raw] * (MAX_REPORTS + 1)})
    response = AgentPollResponse.parse({"capture_jobs": [{"capture": "c_1"}] * (MAX_JOBS + 1)})
    assert len(response.capture_jobs) == MAX_JOBS


@pytest.mark.parametrize("value", [-1, True, "7", None, float("nan"), float("inf"), 2**53, [7]])
def test_a_number_that_is_none_is_zero(value: object) -> None:
    raw = {"capture": "c_1", "state": "done", "samples": value, "elapsed_seconds": value}
    report = CaptureReport.parse(raw)
    assert (report.samples, report.elapsed_seconds) == (0, 0)


def test_a_job_that_cannot_be_parsed_keeps_no_other_from_being_taken() -> None:
    raw_jobs = [{"capture": "../../etc"}, {"capture": ""}, {}, 7, {"capture": "c_1", "seconds": 1, "rate": 9}]
    response = AgentPollResponse.parse({"capture_jobs": raw_jobs, "stop_captures": ["c_2", 7, ""]})
    assert response.capture_jobs == (CaptureJob("c_1", 1, 9),)
    assert response.stop_captures == ("c_2",)
    assert len(response.problems) == 4
