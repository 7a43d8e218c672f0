"""Windows that are sent on, to another collector of ours and to servers that fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.forwarding.forward_body import encode_otlp
from sidelight_collector.forwarding.forward_client import ForwardClient, ForwardFailed
from sidelight_collector.forwarding.forwarder import ATTEMPTS, MAX_BATCH, WINDOW_BYTES, Forwarder
from sidelight_collector.metrics import Metrics
from sidelight_collector.stack_hashing import HashedWindow, hash_window
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.segments import list_segments, read_segment
from sidelight_model.counts import STATES
from sidelight_model.window import Window, encode_windows

PROFILE = "main (a.py:1);f (a.py:2) 7 | main (a.py:1);[idle] 20 | main (a.py:1);g (b.py:3);[gil] 3"


def read_stacks(store: MemoryStore) -> dict[tuple[str, str], dict[str, list[int]]]:
    """The counts by state of the stacks of all windows, by service and pod."""
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for ref in list_segments(store, 0, 2**63 - 1):
        texts = {row["h"]: ";".join(row["frames"]) for row in read_segment(store, ref, "stacks").to_pylist()}
        profiles = read_segment(store, ref, "profiles").to_pylist()
        names = {row["wid"]: (row["service"], row["pod"]) for row in profiles}
        for row in read_segment(store, ref, "samples").to_pylist():
            stacks = found.setdefault(names[row["wid"]], {})
            counts = stacks.setdefault(texts[row["h"]], [0] * len(STATES))
            for at, state in enumerate(STATES):
                counts[at] += row[state]
    return found


async def wait_until(collector: Any, line: str, value: float) -> None:
    async with asyncio.timeout(120):
        while await collector.metric(line) < value:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["", "/v1development/profiles"])
async def test_another_collector_has_the_same_stacks_states_and_labels(
    serving: Any, make_window: Any, tmp_path: Any, path: str
) -> None:
    token = tmp_path / "token"
    token.write_text("s3crét\n", "utf-8")
    here, there = MemoryStore(), MemoryStore()
    async with serving(there, tokens=BearerTokens(write=("s3crét",))) as receiver:
        url = receiver.url(path)
        async with serving(here, forward_url=url, forward_token_file=token) as collector:
            windows = [make_window(PROFILE, pod=f"shop-{number}", version="7") for number in range(3)]
            for _ in range(2):  # the second time they are duplicates, which are not sent
                assert (await collector.post(encode_windows(windows))).status == 200
            await wait_until(collector, 'sidelight_forwarded_windows_total{outcome="sent"}', 3)
            assert await collector.metric('sidelight_forwarded_windows_total{outcome="sent"}') == 3
            assert await collector.metric('sidelight_forwarded_windows_total{outcome="failed"}') == 0
    assert read_stacks(here) == read_stacks(there)
    assert len(read_stacks(there)) == 3


async def test_windows_that_were_forwarded_are_not_forwarded_again(serving: Any, make_window: Any) -> None:
    there = MemoryStore()
    async with (
        serving(there) as receiver,
        serving(MemoryStore(), forward_url=receiver.url("")) as collector,
    ):
        forwarded, own = (encode_windows([make_window(PROFILE, pod=pod)]) for pod in ("forwarded", "own"))
        assert (await collector.post(forwarded, Sidelight_Forwarded="1")).status == 200
        assert (await collector.post(own)).status == 200
        await wait_until(collector, 'sidelight_forwarded_windows_total{outcome="sent"}', 1)
    assert list(read_stacks(there)) == [("shop", "own")]


async def test_a_server_that_is_gone_does_not_disturb_ingest(serving: Any, make_window: Any) -> None:
    async with serving(MemoryStore()) as gone:
        url = gone.url("/prefix")
    async with serving(MemoryStore(), forward_url=url) as collector:
        assert (await collector.post(encode_windows([make_window(PROFILE)]))).status == 200


def hashed(make_window: Any) -> HashedWindow:
    window: Window = make_window(PROFILE)
    return hash_window(window)


async def run_until_counted(forwarder: Forwarder, metrics: Metrics, expected: int) -> None:
    """Run the task until as many windows are sent or failed."""
    stop = asyncio.Event()

    async def end() -> None:
        async with asyncio.timeout(120):
            while count(metrics, "sent") + count(metrics, "failed") < expected:
                await asyncio.sleep(0.001)
        stop.set()

    await asyncio.gather(forwarder.run(stop), end())


def count(metrics: Metrics, outcome: str) -> float:
    value = metrics.registry.get_sample_value("sidelight_forwarded_windows_total", {"outcome": outcome})
    return value or 0.0


async def test_a_full_queue_drops_and_counts_and_never_waits(make_window: Any) -> None:
    metrics, window, sent, held = Metrics(), hashed(make_window), [], threading.Event()
    size = WINDOW_BYTES + window.memory_bytes

    def send(windows: Sequence[HashedWindow]) -> None:
        held.wait(60)
        sent.append(len(windows))

    forwarder = Forwarder(send, metrics, 250 * size)
    forwarder.offer([window] * 300)
    assert count(metrics, "dropped") == 50
    held.set()
    await run_until_counted(forwarder, metrics, 250)
    assert sent == [MAX_BATCH, MAX_BATCH, 50]
    forwarder.offer([window] * 250)
    assert count(metrics, "dropped") == 50, "the space of sent windows is free again"


@pytest.mark.parametrize(("is_temporary", "attempts"), [(True, ATTEMPTS), (False, 1)])
async def test_only_temporary_failures_are_repeated(
    make_window: Any, *, is_temporary: bool, attempts: int
) -> None:
    metrics, calls = Metrics(), []

    def send(windows: Sequence[HashedWindow]) -> None:
        calls.append(len(windows))
        raise ForwardFailed("no", is_temporary=is_temporary)

    forwarder = Forwarder(send, metrics, 1 << 20, first_pause_seconds=0.001)
    forwarder.offer([hashed(make_window)])
    await run_until_counted(forwarder, metrics, 1)
    assert (len(calls), count(metrics, "failed")) == (attempts, 1)


async def test_a_batch_that_cannot_be_encoded_fails_and_ends_nothing(make_window: Any) -> None:
    metrics, outcomes = Metrics(), iter([ValueError("no"), None])

    def send(_: Sequence[HashedWindow]) -> None:
        if error := next(outcomes):
            raise error

    forwarder = Forwarder(send, metrics, 1 << 20)
    forwarder.offer([hashed(make_window)] * (MAX_BATCH + 1))
    await run_until_counted(forwarder, metrics, MAX_BATCH + 1)
    assert (count(metrics, "failed"), count(metrics, "sent")) == (MAX_BATCH, 1)


def test_a_refused_connection_is_a_temporary_failure(make_window: Any) -> None:
    with pytest.raises(ForwardFailed) as caught:
        ForwardClient("http://127.0.0.1:1/x").send([hashed(make_window)])
    assert caught.value.is_temporary


def test_otlp_requests_have_the_layout_of_the_published_messages(make_window: Any) -> None:
    request = ExportProfilesServiceRequest.FromString(encode_otlp([hashed(make_window)] * 2))
    dictionary = request.dictionary
    for table in ("mapping", "location", "function", "link", "attribute", "stack"):
        assert not getattr(dictionary, f"{table}_table")[0].ByteSize()
    assert (dictionary.string_table[0], len(dictionary.stack_table)) == ("", 4)
    [resource, _] = request.resource_profiles
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "shop"
    cpu, off_cpu = resource.scope_profiles[0].profiles
    assert dictionary.string_table[off_cpu.sample_type.type_strindex] == "off_cpu"
    assert sum(sample.values[0] for sample in cpu.samples) == 10 * cpu.period
    assert sum(sample.values[0] for sample in off_cpu.samples) == 20 * cpu.period
    assert cpu.profile_id != off_cpu.profile_id
    text = dictionary.string_table
    [running] = [sample for sample in cpu.samples if sample.values[0] == 7 * cpu.period]
    frames = [
        (text[dictionary.function_table[line.function_index].name_strindex], line.line)
        for index in dictionary.stack_table[running.stack_index].location_indices
        for line in dictionary.location_table[index].lines
    ]
    assert frames == [("f", 2), ("main", 1)]
