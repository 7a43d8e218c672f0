"""What a body may hold, each limit at its edge. Pure: no server, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from ulid import ULID

from sidelight_collector.ingest.validation import (
    MIN_LINE_BYTES,
    IngestLimits,
    ParsedRequest,
    ReceivedRequest,
    parse_request,
)
from sidelight_collector.stack_hashing import MAX_SAMPLES, MAX_THREAD_TIME_NS, hash_window
from sidelight_model.counts import FURTHER_STATES, STATES
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.labels import LabelLimits
from sidelight_model.window import Quality, Window, WindowLimits, encode_windows

Make = Callable[..., Window]
NOW_NS = 1_795_255_000 * 10**9
SECOND_NS = 10**9
RULES = IngestLimits(
    WindowLimits(max_windows=3, max_stacks=4, max_depth=6, labels=LabelLimits(max_labels=5)),
    max_body_bytes=100_000,
    max_future_ns=300 * SECOND_NS,
    max_age_ns=7 * 86_400 * SECOND_NS,
)


def take(body: bytes | Window | list[Window], query: Mapping[str, str] | None = None) -> ParsedRequest:
    if isinstance(body, Window):
        body = [body]
    text = encode_windows(body) if isinstance(body, list) else body
    return parse_request(ReceivedRequest(text, "", query or {}, NOW_NS), RULES)


def refusal(body: bytes | Window | list[Window], query: Mapping[str, str] | None = None) -> SidelightError:
    with pytest.raises(SidelightError) as refused:
        take(body, query)
    assert refused.value.hint
    return refused.value


@pytest.fixture
def window(make_window: Make) -> Make:
    return lambda *args, **kwargs: make_window(*args, **{"start_ns": NOW_NS - 10 * SECOND_NS, **kwargs})


def folded(text: str, **query: str) -> Window:
    return take(text.encode(), {"service": "shop", **query}).windows[0].window


def test_windows_come_out_as_they_were_sent(window: Make) -> None:
    sent = [window("main;f 3 | main;f;[idle] 2", pod="p1"), window("main;g 1", version="2", zone="a")]
    taken = take(sent)
    assert taken.windows == [hash_window(window) for window in sent]
    assert [row.window for row in taken.windows] == [replace(window, counts={}) for window in sent]
    assert taken.text_bytes == len(encode_windows(sent))


def test_as_many_windows_as_the_limit_pass_and_one_more_does_not(window: Make) -> None:
    assert len(take([window() for _ in range(3)]).windows) == 3
    assert refusal([window() for _ in range(4)]).reason is Reason.TOO_MANY_WINDOWS


def test_as_many_stacks_as_the_limit_pass_and_one_more_does_not(window: Make) -> None:
    assert len(take(window("a 1 | b 1 | c 1 | d 1")).windows[0].stacks) == 4
    assert refusal(window("a 1 | b 1 | c 1 | d 1 | e 1")).reason is Reason.TOO_MANY_STACKS


def test_a_stack_of_the_deepest_allowed_is_kept_and_a_deeper_one_is_clipped_and_counted(window: Make) -> None:
    whole = take(window("a;b;c;d;e;f 2"))
    assert list(whole.windows[0].stacks) == ["a;b;c;d;e;f"]
    assert whole.truncated_samples == 0
    cut = take(window("a;b;c;d;e;f;g 2 | a;b;c;d;e;f;g;h;[idle] 3 | a 1"))
    assert sorted(cut.windows[0].stacks) == ["a", "a;b;c;(truncated);f;g", "a;b;c;(truncated);g;h"]
    assert cut.truncated_samples == 5
    assert folded("a;b;c;d;e;f;g 2\nb 1\n").quality.truncated == 2


def test_what_the_sampler_clipped_itself_is_not_counted_twice(window: Make) -> None:
    sent = replace(window("a;b;c;(truncated);f;g 2"), quality=Quality(truncated=2))
    assert take(sent).truncated_samples == 2


def test_as_many_labels_as_the_limit_pass_and_one_more_does_not(window: Make) -> None:
    take(window(a="1", b="2", c="3", d="4"))
    assert refusal(window(a="1", b="2", c="3", d="4", e="5")).reason is Reason.TOO_MANY_LABELS


def test_a_label_as_long_as_the_limit_passes_and_a_longer_one_does_not(window: Make) -> None:
    take(window(pod="p" * 256))
    assert refusal(window(pod="p" * 257)).reason is Reason.BAD_LABEL


def test_a_window_may_end_a_little_in_the_future(window: Make) -> None:
    edge = NOW_NS + RULES.max_future_ns - SECOND_NS
    take(window(start_ns=edge))
    refused = refusal(window(start_ns=edge + 1))
    assert refused.reason is Reason.CLOCK_SKEW
    assert "--max-future-seconds" in refused.hint


def test_a_window_may_not_be_older_than_the_limit(window: Make) -> None:
    edge = NOW_NS - RULES.max_age_ns
    take(window(start_ns=edge))
    assert refusal(window(start_ns=edge - 1)).reason is Reason.TOO_OLD
    assert refusal(window(start_ns=0, duration_ns=1).__class__(**_at_zero(window()))).reason is Reason.TOO_OLD


def _at_zero(window: Window) -> dict[str, object]:
    return {name: getattr(window, name) for name in window.__slots__} | {"start_ns": 0}


def test_a_window_cannot_claim_more_time_than_its_threads_had(window: Make) -> None:
    period_ns = 10**7
    most = MAX_THREAD_TIME_NS // period_ns
    take(window(f"a {most - 1} | b 1"))
    assert refusal(window(f"a {most} | b 1")).reason is Reason.TOO_LARGE


def test_a_count_of_zero_is_no_stack(window: Make) -> None:
    taken = take(encode_windows([window("a 1")]) + b"b 0\n")
    assert list(taken.windows[0].stacks) == ["a"]


def test_the_first_bad_line_is_named_and_nothing_is_taken(window: Make) -> None:
    refused = refusal(encode_windows([window("a 1"), window("b 1")]) + b"c x\nd y\n")
    assert refused.reason is Reason.BAD_FOLDED
    assert refused.message.startswith("line 5:")


def test_a_header_of_another_format_is_refused(window: Make) -> None:
    refused = refusal(encode_windows([window()]).replace(b'"format":2', b'"format":4'))
    assert refused.reason is Reason.BAD_HEADER


@pytest.mark.parametrize("body", [b"# not json\na 1\n", b"#\n", b"# {}\n", b"# []\na 1\n"])
def test_a_header_that_cannot_be_read_is_refused(body: bytes) -> None:
    assert refusal(body).reason is Reason.BAD_HEADER


def test_a_body_without_a_service_says_how_to_name_one() -> None:
    refused = refusal(b"main 1\n")
    assert refused.reason is Reason.BAD_LABEL
    assert "?service=" in refused.hint


def test_equal_windows_have_equal_digests_whatever_the_order_of_their_lines(window: Make) -> None:
    sent = window("a 1 | b 2 | c;[gil] 3")
    header, *lines = encode_windows([sent]).splitlines(keepends=True)
    digests = {
        take(header + b"".join(lines)).windows[0].digest,
        take(header + b"".join(reversed(lines))).windows[0].digest,
    }
    assert len(digests) == 1
    other = {take(replace(sent, counts=window("a 1 | b 3").counts)).windows[0].digest}
    assert not digests & other


def test_plain_folded_text_takes_its_labels_from_the_query() -> None:
    made = folded(
        "main;f 5\nmain;g 3\n", version="2", zone="a", rate="200", duration="10", start="1795254000"
    )
    assert dict(made.labels) == {"service": "shop", "version": "2", "zone": "a"}
    assert (made.period_ns, made.duration_ns, made.start_ns) == (5_000_000, 10**10, 1_795_254_000 * 10**9)
    assert made.quality.samples == 8
    assert made.quality.missing_states == ("idle", "gil", *FURTHER_STATES)


def test_plain_folded_text_with_states_misses_none() -> None:
    assert folded("main;f;[idle] 5\n").quality.missing_states == FURTHER_STATES
    assert folded("main;f;[poll] 5\nmain;f;[cpu_wait] 1\n").quality.missing_states == (
        "gil_wait",
        "lock",
        "io",
        "sleep",
    )


def test_plain_folded_text_without_times_is_one_thread_that_has_just_been_watched() -> None:
    made = folded("main;f 500\n")
    assert (made.duration_ns, made.start_ns) == (5 * SECOND_NS, NOW_NS - 5 * SECOND_NS)


def test_plain_folded_text_may_have_an_id_to_be_sent_again() -> None:
    window_id = str(ULID())
    assert folded("main 1\n", id=window_id).id == window_id
    assert refusal(b"main 1\n", {"service": "shop", "id": "7"}).reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize("body", [b"", b"\n", b"# a note\n", b"main 0\n", b"\xef\xbb\xbf"])
def test_a_profile_without_samples_is_a_failure_of_the_profiler(body: bytes) -> None:
    refused = refusal(body, {"service": "shop"})
    assert (refused.reason, refused.message) == (Reason.BAD_FOLDED, "the profile has no samples")


def test_damaged_lines_of_a_profile_are_left_out_and_counted() -> None:
    found = take(b"main 1\n" * 100 + b"main\n", {"service": "shop"})
    assert sum(map(sum, found.windows[0].counts)) == 100
    assert found.unreadable_lines.count == 1
    assert found.unreadable_lines.errors[0].message.startswith("line 101: ")


@pytest.mark.parametrize("name", ["rate", "duration"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "nan", "inf", "1e999", ""])
def test_a_number_that_cannot_be_used_is_refused_by_name(name: str, value: str) -> None:
    refused = refusal(b"main 1\n", {"service": "shop", name: value})
    assert refused.reason is Reason.BAD_PARAMETER
    assert refused.message.startswith(f"{name}=")


def test_a_start_that_is_no_time_is_refused() -> None:
    assert refusal(b"main 1\n", {"service": "shop", "start": "lately"}).reason is Reason.BAD_TIME


def test_a_body_that_begins_with_folded_lines_and_has_headers_later_is_refused(window: Make) -> None:
    assert refusal(b"main 1\n" + encode_windows([window()])).reason is Reason.BAD_FOLDED
    assert refusal(b"main 1\n" + encode_windows([window()]), {"service": "shop"}).reason is Reason.BAD_FOLDED


def test_a_body_whose_lines_are_too_short_is_refused_before_reading_it_takes_more_memory_than_its_text(
    window: Make,
) -> None:
    most = RULES.max_body_bytes // MIN_LINE_BYTES
    assert take(encode_windows([window("f 1")]) + b"\n" * (most - 2)).windows
    error = refusal(encode_windows([window("f 1")]) + b"\n" * (most - 1))
    assert (error.reason, error.message) == (Reason.TOO_LARGE, f"the body has more than {most} lines")


def test_a_window_cannot_claim_more_samples_than_sums_of_windows_can_hold(window: Make) -> None:
    most = replace(window(f"main {MAX_SAMPLES}"), period_ns=1)
    assert take(most).windows[0].counts[STATES.index("running")][0] == MAX_SAMPLES
    error = refusal(replace(window(f"main {MAX_SAMPLES + 1}"), period_ns=1))
    assert error.reason is Reason.TOO_LARGE
    assert "samples" in error.message
