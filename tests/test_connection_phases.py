"""When a server closes a connection: phases, deadlines and places, with a clock of the test's own."""

from __future__ import annotations

import pytest

from sidelight.connection_phases import (
    GRACE_SECONDS,
    MIN_WAIT_SECONDS,
    CloseReason,
    ConnectionTable,
    ConnectionTimeouts,
    ConnectionTimer,
)
from sidelight.open_files import limit_connections

TIMEOUTS = ConnectionTimeouts(
    header_seconds=20,
    body_pause_seconds=30,
    whole_body_seconds=100,
    response_pause_seconds=60,
    idle_seconds=600,
)


def expires(
    timer: ConnectionTimer, *, is_reading: bool = True, unsent_bytes: int = 0
) -> tuple[float, CloseReason]:
    """When the connection is closed and why, if its client does nothing more."""
    for _ in range(10):
        assert timer.deadline is not None
        now = timer.deadline
        assert timer.find_expired(now - 0.001, is_reading=is_reading, unsent_bytes=unsent_bytes) is None
        if reason := timer.find_expired(now, is_reading=is_reading, unsent_bytes=unsent_bytes):
            return round(now - GRACE_SECONDS, 3), reason
    raise AssertionError("it stays open")


def test_a_head_has_its_time_from_the_connection_on_however_it_trickles() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    for second in range(1, 20):
        timer.receive(second)
    assert timer.is_waiting
    assert expires(timer) == (20, CloseReason.HEADER_TIMEOUT)


def test_a_request_after_a_tls_handshake_has_its_time_from_there_on() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.start(15)
    assert expires(timer) == (35, CloseReason.HEADER_TIMEOUT)


def test_a_connection_between_requests_is_idle_until_the_first_byte_of_a_head() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(1, has_body=False)
    timer.end_request(2, has_body=False)
    assert expires(timer) == (602, CloseReason.IDLE)
    timer.receive(500)
    assert expires(timer) == (520, CloseReason.HEADER_TIMEOUT)


def test_a_handler_may_take_any_time() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(1, has_body=False)
    timer.receive(2)
    assert timer.deadline is None
    assert not timer.is_waiting
    assert timer.find_expired(1e9, is_reading=True, unsent_bytes=0) is None


def test_a_body_may_be_slow_but_not_pause() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(0, has_body=True)
    timer.receive(29)
    timer.receive(58)
    assert not timer.is_waiting
    assert expires(timer) == (88, CloseReason.BODY_TIMEOUT)


def test_a_body_that_trickles_ends_at_the_time_for_all_of_it() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(0, has_body=True)
    reason, now = None, 0.0
    while reason is None:
        now += 0.01
        timer.receive(now)
        reason = timer.find_expired(now, is_reading=True, unsent_bytes=0)
    assert (round(now, 1), reason) == (100 + GRACE_SECONDS, CloseReason.BODY_TIMEOUT)


def test_a_body_that_the_server_does_not_read_does_not_pause() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(0, has_body=True)
    for _ in range(10):
        assert timer.deadline is not None
        assert timer.find_expired(timer.deadline, is_reading=False, unsent_bytes=0) is None
    timer.end_body(500)
    assert timer.deadline is None


def test_the_rest_of_a_body_that_was_refused_has_a_time_too() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(0, has_body=True)
    timer.end_request(1, has_body=True)
    assert timer.is_waiting
    assert expires(timer) == (21, CloseReason.BODY_TIMEOUT)
    timer.end_body(2)
    assert expires(timer) == (602, CloseReason.IDLE)


@pytest.mark.parametrize("handler_ends", [True, False])
def test_a_response_may_be_read_slowly_but_not_never(handler_ends: bool) -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    timer.begin_request(0, has_body=False)
    timer.pause_writing(1, unsent_bytes=1000)
    if handler_ends:
        timer.end_request(2, has_body=False)
    assert not timer.is_waiting
    for left in range(999, 990, -1):
        for _ in "due", "after its grace":
            assert timer.deadline is not None
            assert timer.find_expired(timer.deadline, is_reading=True, unsent_bytes=left) is None
    stalled = timer.deadline
    assert expires(timer, unsent_bytes=991) == (pytest.approx(stalled), CloseReason.RESPONSE_TIMEOUT)
    timer.resume_writing(700)
    assert timer.deadline == (1300 if handler_ends else None)


def test_bytes_that_arrived_while_the_event_loop_was_busy_count() -> None:
    timer = ConnectionTimer(TIMEOUTS, 0)
    assert timer.find_expired(50, is_reading=True, unsent_bytes=0) is None
    timer.begin_request(50, has_body=False)
    assert timer.find_expired(60, is_reading=True, unsent_bytes=0) is None


def table(count: int) -> ConnectionTable[int]:
    """A table of 4 places and 2 for probes, with connections that came one a second."""
    made: ConnectionTable[int] = ConnectionTable(4, 2, max_head_bytes=100)
    for number in range(count):
        made.add(number, float(number))
    return made


def test_the_connection_that_waits_longest_makes_room() -> None:
    full = table(4)
    full.set_working(0)
    assert full.is_full
    assert full.find_longest_waiting(10) == 1
    full.set_closing(1)
    assert full.is_closing
    assert not full.is_full
    full.set_waiting(1, 10)  # it does not come back
    full.set_waiting(0, 10)
    assert full.find_longest_waiting(10) == 2
    full.remove(1)
    assert not full.is_closing


def test_a_connection_that_has_just_come_may_send_its_request_first() -> None:
    full = table(1)
    assert full.find_longest_waiting(MIN_WAIT_SECONDS - 0.01) is None
    assert full.find_longest_waiting(MIN_WAIT_SECONDS) == 0


def test_requests_in_progress_leave_no_room_but_the_reserve() -> None:
    full = table(5)
    for number in range(5):
        full.set_working(number)
    assert (full.is_busy, full.has_room, full.find_longest_waiting(99)) == (True, True, None)
    full.add(5, 5)
    assert not full.has_room
    full.set_waiting(0, 6)
    full.set_waiting(1, 6)
    assert not full.is_busy
    full.remove(0)
    assert full.has_room


def test_heads_that_take_too_much_memory_together_are_closed_largest_first() -> None:
    heads = table(4)
    assert not heads.add_head_bytes(0, 50)
    assert not heads.add_head_bytes(1, 10)
    assert not heads.add_head_bytes(2, 40)
    assert heads.add_head_bytes(1, 30)
    assert heads.find_largest_heads() == [0]
    heads.set_working(0)  # its head is complete
    assert heads.find_largest_heads() == []
    assert not heads.add_head_bytes(0, 1000)
    heads.remove(1)
    assert not heads.add_head_bytes(3, 60)


@pytest.mark.parametrize(
    ("asked", "open_files", "allowed"),
    [
        (20_000, 1 << 20, 20_000),
        (20_000, 4096, 4096 - 1024 - 16),
        (20_000, 1024, 1024 - 256 - 16),
        (20_000, 256, 256 - 128 - 16),
        (256, 1 << 20, 256),
        (1, 256, 1),
        (20_000, 64, 1),
    ],
)
def test_connections_stay_below_the_limit_of_open_files(asked: int, open_files: int, allowed: int) -> None:
    assert limit_connections(asked, open_files, 16) == allowed
