"""How far a capture has come follows from what its sidecars told and the clock."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sidelight_collector.captures.attach.ephemeral_container import AttachTarget, build_container
from sidelight_collector.captures.capture import (
    JOIN_SECONDS,
    STOP_GRACE_SECONDS,
    Capture,
    CapturePart,
    CapturePolicy,
    CaptureRequest,
    Claim,
    build_outcome,
    claim_slots,
    compute_progress,
    count_free_slots,
    is_newer_report,
    request_stop,
)
from sidelight_collector.captures.capture_codec import (
    decode_capture,
    decode_part,
    encode_capture,
    encode_part,
)
from sidelight_collector.captures.capture_repository import (
    CaptureNotFound,
    CaptureRepository,
    generate_capture_id,
)
from sidelight_collector.captures.capture_requests import BadBody, parse_capture_id, parse_capture_request
from sidelight_collector.captures.recordings.recording_files import (
    merge_into_runs,
    parse_recording,
    render_speedscope,
)
from sidelight_collector.doctor.layout import survey_store
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectDamaged, ObjectStore
from sidelight_model.capture_protocol import CaptureReport, CaptureState, ProcessReport, TopFunction
from sidelight_sidecar.settings import parse_sidecar_settings
from tests.collector.counting_store import Counting
from tests.collector.fake_sidecars import recording
from tests.collector.faults import FaultyStore

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"
NOW = 1_795_253_400.0
RULES = CapturePolicy(claim_timeout_seconds=60.0, agent_timeout_seconds=30.0, max_pods=3)


def made(pods: int | str | tuple[str, ...] = 1, *claims: Claim, **changes: object) -> Capture:
    wish = CaptureRequest(
        "shop", 'version="2"', parse_re2_selector('version="2"'), pods, 60.0, 100, "auto", True
    )
    return replace(Capture(generate_capture_id(NOW), wish, NOW, claims=claims), **changes)  # type: ignore[arg-type]


def claim(agent: str, at: float = NOW, **labels: str) -> Claim:
    return Claim(agent, {"service": "shop", "pod": f"pod-{agent}", **labels}, at)


def told(agent: str, state: CaptureState, last_seen: float = NOW, **report: object) -> dict[str, CapturePart]:
    return {agent: CapturePart(agent, last_seen, CaptureReport("c", state, **report))}  # type: ignore[arg-type]


def test_a_capture_goes_from_queued_to_uploading_as_its_sidecars_tell() -> None:
    capture = made()
    assert compute_progress(capture, {}, RULES, NOW).state is CaptureState.QUEUED
    capture = made(2, claim("a"), claim("b"))
    assert compute_progress(capture, {}, RULES, NOW).state is CaptureState.SCHEDULED
    assert (
        compute_progress(capture, told("a", CaptureState.SAMPLING), RULES, NOW).state is CaptureState.SAMPLING
    )
    both = told("a", CaptureState.DONE, windows=2) | told("b", CaptureState.SAMPLING)
    assert compute_progress(capture, both, RULES, NOW).state is CaptureState.SAMPLING
    both = told("a", CaptureState.DONE, windows=2) | told("b", CaptureState.UPLOADING)
    assert compute_progress(capture, both, RULES, NOW).state is CaptureState.UPLOADING
    both = told("a", CaptureState.DONE, windows=2) | told("b", CaptureState.DONE)
    assert compute_progress(capture, both, RULES, NOW).state is CaptureState.UPLOADING
    assert (
        build_outcome(capture, both, compute_progress(capture, both, RULES, NOW), NOW).state
        is CaptureState.READY
    )


def test_a_capture_that_nobody_takes_fails_only_after_its_wait() -> None:
    assert compute_progress(made(), {}, RULES, NOW + 60).state is CaptureState.QUEUED
    failed = compute_progress(made(), {}, RULES, NOW + 60.001)
    assert (failed.state, "60 s" in failed.problem) == (CaptureState.FAILED, True)
    assert count_free_slots(made(), RULES, NOW + 60) == 1
    assert count_free_slots(made(), RULES, NOW + 60.001) == 0


def test_a_sidecar_not_heard_of_has_failed_and_goes_on_when_it_is_heard_again() -> None:
    capture = made(1, claim("a"))
    assert compute_progress(capture, {}, RULES, NOW + 30).state is CaptureState.SCHEDULED
    lost = compute_progress(capture, {}, RULES, NOW + 30.001)
    assert (lost.state, "pod-a" in lost.problem, bool(lost.hint)) == (CaptureState.FAILED, True, True)
    part = told("a", CaptureState.SAMPLING, NOW + 10)
    assert compute_progress(capture, part, RULES, NOW + 40).state is CaptureState.SAMPLING
    assert "while sampling" in compute_progress(capture, part, RULES, NOW + 40.001).problem
    assert (
        compute_progress(capture, told("a", CaptureState.SAMPLING, NOW + 50), RULES, NOW + 60).state
        is CaptureState.SAMPLING
    )


def test_one_sidecar_that_fails_does_not_fail_the_others() -> None:
    capture = made(2, claim("a"), claim("b"))
    parts = told("a", CaptureState.FAILED, problem="ptrace denied", hint="Add SYS_PTRACE.")
    both = parts | told("b", CaptureState.DONE, windows=3)
    ended = build_outcome(capture, both, compute_progress(capture, both, RULES, NOW), NOW)
    assert (ended.state, ended.problem, ended.hint) == (
        CaptureState.READY,
        "1 of 2 pods failed: ptrace denied",
        "Add SYS_PTRACE.",
    )
    both = parts | told("b", CaptureState.FAILED, problem="gone")
    failed = compute_progress(capture, both, RULES, NOW)
    assert (failed.state, failed.problem, failed.hint) == (
        CaptureState.FAILED,
        "ptrace denied",
        "Add SYS_PTRACE.",
    )


def test_a_capture_without_a_sample_has_failed() -> None:
    assert (
        compute_progress(made(1, claim("a")), told("a", CaptureState.DONE), RULES, NOW).problem
        == "no sample was taken"
    )


def test_an_order_on_its_way_when_its_capture_is_stopped_may_still_be_heard_of() -> None:
    capture = request_stop(made(1, claim("a")), NOW + 1)
    assert capture is not None
    assert compute_progress(capture, {}, RULES, NOW + 1 + STOP_GRACE_SECONDS).state is CaptureState.SCHEDULED
    assert (
        compute_progress(capture, {}, RULES, NOW + 1.001 + STOP_GRACE_SECONDS).state is CaptureState.STOPPED
    )
    begun = compute_progress(capture, told("a", CaptureState.SAMPLING, NOW + 7), RULES, NOW + 8)
    assert begun.state is CaptureState.SAMPLING
    parts = told("a", CaptureState.STOPPED, NOW + 9, windows=1)
    assert (
        build_outcome(capture, parts, compute_progress(capture, parts, RULES, NOW + 9), NOW).state
        is CaptureState.STOPPED
    )


def test_a_stop_before_anybody_took_it_ends_it_and_a_second_changes_nothing() -> None:
    capture = request_stop(made(), NOW)
    assert capture is not None
    assert compute_progress(capture, {}, RULES, NOW).state is CaptureState.STOPPED
    assert request_stop(capture, NOW + 5) is None
    assert claim_slots(capture, [claim("a")], RULES, NOW) is None


def test_as_many_sidecars_take_a_capture_as_were_asked_for_and_one_of_a_pod() -> None:
    several = [claim("a"), claim("b"), claim("c", pod="pod-a"), claim("d"), claim("e")]

    def agents(capture: Capture) -> list[str]:
        changed = claim_slots(capture, several, RULES, NOW)
        return [one.agent for one in changed.claims] if changed else []

    assert agents(made(2)) == ["a", "b"]
    assert agents(made("all")) == ["a", "b", "d"]
    assert agents(made(2, claim("x"))) == ["x", "a"]
    assert agents(made(1, claim("x"))) == []


def test_others_may_join_only_for_a_while() -> None:
    assert count_free_slots(made("all", claim("a", NOW)), RULES, NOW + JOIN_SECONDS) == 2
    assert count_free_slots(made("all", claim("a", NOW)), RULES, NOW + JOIN_SECONDS + 0.001) == 0


def test_a_late_report_never_takes_back_what_was_told() -> None:
    def part(state: CaptureState, elapsed: float) -> CapturePart:
        return CapturePart("a", NOW, CaptureReport("c", state, elapsed_seconds=elapsed))

    assert is_newer_report(None, part(CaptureState.SAMPLING, 0))
    assert is_newer_report(part(CaptureState.SAMPLING, 1), part(CaptureState.SAMPLING, 2))
    assert not is_newer_report(part(CaptureState.SAMPLING, 2), part(CaptureState.SAMPLING, 1))
    assert is_newer_report(part(CaptureState.SAMPLING, 9), part(CaptureState.UPLOADING, 1))
    assert not is_newer_report(part(CaptureState.UPLOADING, 1), part(CaptureState.SAMPLING, 9))
    assert not is_newer_report(part(CaptureState.DONE, 1), part(CaptureState.FAILED, 9))


def test_a_selector_names_the_service_and_the_rest() -> None:
    by_name = parse_capture_request({"service": "shop", "query": 'version="2", pod!="x"'}, CapturePolicy())
    assert (
        parse_capture_request({"selector": '{service="shop", version="2", pod!="x"}'}, CapturePolicy())
        == by_name
    )
    assert parse_capture_request({"service": "shop", "pods": "one"}, CapturePolicy()).pods == 1
    assert parse_capture_request({"service": "shop", "native": True}, CapturePolicy()).mode == "native"


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"selector": 'version="2"'}, "does not name one service"),
        ({"selector": 'service=~"a|b"'}, "does not name one service"),
        ({"selector": '{service="a"}', "service": "a"}, "stands beside"),
        ({"selector": 7}, "not text"),
        ({"service": "a", "native": True, "mode": "gil"}, "native is true"),
        ({"service": "a", "native": 1}, "native is not"),
        ({"service": "a", "attach": "yes"}, "attach is not"),
        ({"service": "a", "container": "app"}, "for captures that attach"),
        ({"service": "a", "attach": True, "container": "a b"}, "container is not"),
    ],
)
def test_a_wish_that_means_nothing_is_refused(wish: dict[str, Any], says: str) -> None:
    with pytest.raises(BadBody, match=says):
        parse_capture_request(wish, CapturePolicy())


def test_an_id_is_a_ulid_of_now() -> None:
    now = time.time()
    name = generate_capture_id(now)
    assert (parse_capture_id({"id": name}), parse_capture_id({})) == (name, "")
    for bad in ("c_1", 7, generate_capture_id(now - 3600), generate_capture_id(now + 3600)):
        with pytest.raises(BadBody):
            parse_capture_id({"id": bad})


def test_what_is_written_is_read_again(store: ObjectStore) -> None:
    shelf = CaptureRepository(store)
    for pods in (1, "all", ("a", "b")):
        capture = made(pods, claim("a"), stop_at=NOW + 3)
        shelf.create(capture)
        assert shelf.get(capture.id) == capture == decode_capture("k", encode_capture(capture))
    part = told(
        "a",
        CaptureState.SAMPLING,
        errors={"read": 2},
        top_functions=(TopFunction("f", 3),),
        processes=(ProcessReport(1),),
    )["a"]
    assert decode_part("k", encode_part(part)) == part
    shelf.put_part(capture.id, part)
    assert shelf.get_with_parts(capture.id) == (capture, {"a": part})
    shelf.close()


def test_the_newest_come_first_and_what_was_deleted_is_gone(store: ObjectStore) -> None:
    shelf = CaptureRepository(store)
    captures = [replace(made(), id=generate_capture_id(NOW + at), created_at=NOW + at) for at in range(20)]
    for capture in captures:
        shelf.create(capture)
    assert shelf.list_newest(3, lambda _: True) == captures[:-4:-1]
    assert shelf.list_newest(99, lambda one: one.created_at < NOW + 2) == captures[1::-1]
    assert shelf.list_since(NOW + 17.5) == captures[18:]
    shelf.delete(captures[19].id)
    with pytest.raises(CaptureNotFound):
        shelf.get(captures[19].id)
    assert shelf.list_newest(1, lambda _: True) == [captures[18]]
    shelf.close()


def test_each_process_hears_what_others_told_of_their_sidecars_until_they_leave(store: ObjectStore) -> None:
    with closing(CaptureRepository(store)) as shelf:
        here, there = "1" * 16, "2" * 16
        shelf.agents.put(here, {"agents": ["a"]})
        shelf.agents.put(there, {"agents": ["b"]})
        assert list(shelf.agents.list_remote(here, 0.0)) == [{"agents": ["b"]}]
        assert list(shelf.agents.list_remote(there, 0.0)) == [{"agents": ["a"]}]
        assert list(shelf.agents.list_remote(here, time.time() + 60)) == []
        shelf.agents.delete(there)
        assert list(shelf.agents.list_remote(here, 0.0)) == []


def test_captures_that_are_too_old_go_with_all_they_have_and_nothing_else(store: ObjectStore) -> None:
    shelf = CaptureRepository(store)
    old, new = (replace(made(), id=generate_capture_id(NOW + at)) for at in (0, 86_400))
    for capture in (old, new):
        shelf.create(capture)
        shelf.put_part(capture.id, told("a", CaptureState.DONE)["a"])
        shelf.put_recording(capture.id, "a-1", b"x", b"{}")
    store.put("v1/captures/notes.txt", b"somebody's own")
    assert shelf.delete_expired(NOW + 7 * 86_400 + 1, 7, lambda: True) == 0
    assert shelf.delete_expired(NOW + 7 * 86_400 + 1, 7) == 4
    kept = [entry.key for entry in store.list("v1/captures/")]
    assert len([key for key in kept if new.id in key]) == 4
    assert [key for key in kept if new.id not in key] == ["v1/captures/notes.txt"]
    shelf.close()


def test_a_capture_of_a_later_version_is_left_alone_and_one_that_is_damaged_left_out() -> None:
    store = MemoryStore()
    shelf = CaptureRepository(store)
    good, bad, later = (replace(made(), id=generate_capture_id(NOW + at)) for at in range(3))
    shelf.create(good)
    store.put(f"v1/captures/{bad.id}/state.json", b"{")
    store.put(
        f"v1/captures/{later.id}/state.json", encode_capture(later).replace(b'"format":2', b'"format":3')
    )
    assert shelf.list_newest(9, lambda _: True) == [good]
    with pytest.raises(ObjectDamaged, match="format 3"):
        shelf.get(later.id)
    shelf.close()


def test_of_two_collectors_one_gives_a_capture_to_its_sidecar_whenever_the_other_comes() -> None:
    """The second takes it before each step of the first in turn."""
    steps = 0
    while True:
        store = MemoryStore()
        shelf = CaptureRepository(store)
        capture = made()
        shelf.create(capture)

        def second(shelf: CaptureRepository = shelf, capture: Capture = capture) -> None:
            shelf.update(capture.id, lambda it: claim_slots(it, [claim("b")], RULES, NOW))

        racing = FaultyStore(store, steps, meanwhile=second)
        first = CaptureRepository(racing)
        first.update(capture.id, lambda one: claim_slots(one, [claim("a")], RULES, NOW))
        agents = [one.agent for one in shelf.get(capture.id).claims]
        assert agents in (["a"], ["b"])
        done = racing.made <= steps
        first.close()
        shelf.close()
        if done:
            assert steps >= 2
            return
        steps += 1


def test_a_stop_that_comes_while_a_sidecar_takes_it_is_not_lost() -> None:
    steps = 0
    while True:
        store = MemoryStore()
        shelf = CaptureRepository(store)
        capture = made()
        shelf.create(capture)
        racing = FaultyStore(
            store,
            steps,
            meanwhile=lambda shelf=shelf, capture=capture: shelf.update(  # type: ignore[misc]
                capture.id, lambda one: request_stop(one, NOW)
            ),
        )
        first = CaptureRepository(racing)
        first.update(capture.id, lambda one: claim_slots(one, [claim("a")], RULES, NOW))
        found = shelf.get(capture.id)
        if racing.made > steps:
            assert found.stop_at == NOW
        first.close()
        shelf.close()
        if racing.made <= steps:
            return
        steps += 1


def test_samples_alike_are_drawn_as_one_and_what_is_not_known_as_nothing() -> None:
    raw = recording("c", "a", {"service": "shop"}, 12)
    read = parse_recording(json.dumps(raw).encode(), 1 << 20)
    assert list(merge_into_runs(read.threads[0], [(0, 10_000)])) == [
        (0, 10_000, 0, 0),
        (10_000, 30_000, 1, 1),
        (100_000, 110_000, 1, 2),
    ]
    # From the third sample on one stands for five times as long: nothing is missing.
    slower = parse_recording(
        json.dumps({**raw, "periods": [[0, 10_000], [20_000, 50_000]]}).encode(), 1 << 20
    )
    assert list(merge_into_runs(slower.threads[0], slower.periods))[1:] == [
        (10_000, 100_000, 1, 1),
        (100_000, 150_000, 1, 2),
    ]
    drawn = json.loads(render_speedscope(read, "title", 100))
    (profile,) = drawn["profiles"]
    assert profile["samples"] == [[0, 2], [0, 1], [], [0, 1]]
    assert profile["weights"] == [10_000, 20_000, 70_000, 10_000]
    assert (profile["startValue"], profile["endValue"]) == (0, 110_000)
    assert [frame["name"] for frame in drawn["shared"]["frames"]][-10:] == [
        "[idle]",
        "[cpu_wait]",
        "[gil_wait]",
        "[lock]",
        "[poll]",
        "[io]",
        "[sleep]",
        "[task_running]",
        "[task_ready]",
        "[task_waiting]",
    ]
    (cut,) = json.loads(render_speedscope(read, "title", 4))["profiles"]
    assert cut["samples"] == [[0, 2], [0, 1]]
    assert "only until 0.0 s" in cut["name"]


def test_the_doctor_knows_what_belongs_to_captures() -> None:
    store = MemoryStore()
    shelf = CaptureRepository(store)
    capture = made()
    shelf.create(capture)
    shelf.put_part(capture.id, told("a", CaptureState.DONE)["a"])
    shelf.put_recording(capture.id, "a-1", b"x", b"{}")
    shelf.agents.put("3f0c5d2a9be81746", {"agents": []})
    store.put("v1/captures/notes.txt", b"somebody's own")
    assert list(survey_store(store).unknown) == ["v1/captures/"]
    assert survey_store(store).unknown["v1/captures/"].objects == 1
    shelf.close()


@pytest.mark.parametrize("version", [1, 2])
def test_golden_captures_are_read_by_every_later_version(version: int) -> None:
    capture = decode_capture("golden", (GOLDEN / f"capture-{version}.json").read_bytes())
    assert capture.claims[0].labels["pod"] == "shop-1"
    assert capture.request.timeline
    assert capture.outcome is not None
    assert capture.outcome.state is CaptureState.READY
    assert encode_capture(capture) == (GOLDEN / "capture-2.json").read_bytes().strip()


def test_golden_capture_with_an_ephemeral_sidecar_is_read() -> None:
    (claim,) = decode_capture("golden", (GOLDEN / "capture-1-attached.json").read_bytes()).claims
    sidecar = claim.ephemeral_sidecar
    assert sidecar is not None
    assert (sidecar.container, sidecar.until) == ("sidelight-7g3k2", 1795254900.0)


@pytest.mark.parametrize("version", [1, 2])
def test_golden_capture_parts_are_read_by_every_later_version(version: int) -> None:
    part = decode_part("golden", (GOLDEN / f"capture-part-{version}.json").read_bytes())
    assert part.last_seen == 1795253431.5
    assert part.report.top_functions == (TopFunction("shop.cart:total", 31),)
    assert part.report.processes[0].reduced == ("cpu",)
    assert encode_part(part) == (GOLDEN / "capture-part-2.json").read_bytes().strip()


def test_the_arguments_of_an_attached_sidecar_are_settings_of_the_sidecar() -> None:
    target = AttachTarget("shop", "shop-1", "u-1", "node-1", "shop", "2", "app")
    agent = "01M89MRKN2XKB7WJ0GF180BFHZ"
    token = f"slat_c_{agent}.{agent}.{'s' * 43}"
    variables = {"SIDELIGHT_ONE_SHOT_TOKEN": token, "SIDELIGHT_CA_CERTIFICATES": "PEM"}
    container = build_container(target, agent, "image", "https://collector:8080", variables, made().request)
    command, *argv = container["args"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    settings = parse_sidecar_settings(argv, environment)
    assert settings.ca_certificates == "PEM"
    assert (command, settings.service, settings.capture_max_seconds) == ("sidecar", "shop", 60.0)
    assert settings.on_demand


def test_a_damaged_capture_is_logged_once_and_not_read_again() -> None:
    store = Counting(MemoryStore())
    capture, damaged = made(), made()
    with closing(CaptureRepository(store)) as repository, capture_logs() as logs:
        repository.create(capture)
        store.put(f"v1/captures/{damaged.id}/state.json", b"{")
        for _ in range(3):
            assert repository.list_since(0.0) == [capture]
    assert [entry["event"] for entry in logs] == ["a stored document cannot be read"]
    assert set(store.gets.values()) == {1}
