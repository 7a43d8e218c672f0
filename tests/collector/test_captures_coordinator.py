"""Capture jobs without a server: what a poll answers when a capture is stopped at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import pytest

from sidelight_collector.captures.agent_polls import PendingPolls
from sidelight_collector.captures.agents import AgentRegistry
from sidelight_collector.captures.capture import Capture, CapturePolicy, CaptureRequest
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    AgentStatus,
    CaptureReport,
    CaptureState,
)
from sidelight_model.labels import Labels


@dataclass
class Gate:
    """One answer of a store, held back until it is released."""

    operation: str
    key: str = "/state.json"
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


class SlowStore(MemoryStore):
    """A store that does what it is asked at once; the answer may come later."""

    def __init__(self) -> None:
        super().__init__()
        self._gate: Gate | None = None

    @contextmanager
    def held(self, operation: str) -> Iterator[Gate]:
        """Hold back the next answer to `get` or `put` of a capture; released in the end at the latest."""
        self._gate = gate = Gate(operation)
        try:
            yield gate
        finally:
            gate.released.set()

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        answer = super().get_with_etag(key)
        self._pass("get", key)
        return answer

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = super().put(key, content, if_absent=if_absent, if_match=if_match)
        self._pass("put", key)
        return etag

    def _pass(self, operation: str, key: str) -> None:
        gate = self._gate
        if gate and gate.operation == operation and key.endswith(gate.key):
            self._gate = None
            gate.reached.set()
            assert gate.released.wait(60), "nobody released the answer"


HOLD = 240.0


class Collectors:
    """As many collectors as asked for on one store."""

    def __init__(self, count: int = 1, store: ObjectStore | None = None, look_seconds: float = 60) -> None:
        self.store = SlowStore()
        self.shelves = [CaptureRepository(store or self.store) for _ in range(count)]
        self.metrics = [Metrics() for _ in range(count)]
        self.desks = [
            CaptureCoordinator(
                shelf,
                CapturePolicy(),
                metrics,
                no_windows,
                agents=AgentRegistry(100),
                poll_timeout_seconds=HOLD,
                check_interval_seconds=look_seconds,
            )
            for shelf, metrics in zip(self.shelves, self.metrics, strict=True)
        ]

    def value(self, name: str, desk: int = 0) -> float:
        """The value of a metric of one of them."""
        return self.metrics[desk].registry.get_sample_value(name) or 0.0

    def close(self) -> None:
        for shelf in self.shelves:
            shelf.close()


async def no_windows(_: Capture, __: float) -> int:
    return 0


def wish(service: str = "shop", pods: int = 1) -> CaptureRequest:
    return CaptureRequest(service, "", parse_re2_selector(""), pods, 2.0, 100, "auto", True)


def poll(agent: str = "a", *reports: CaptureReport) -> AgentPoll:
    """What a sidecar asks that does not wait."""
    labels = Labels({"service": "shop", "pod": f"p-{agent}"})
    status = AgentStatus(agent, labels, "0.1.0", "native", ready=True)
    return AgentPoll(status, reports=reports)


Act = Callable[[CaptureCoordinator, str], Awaitable[object]]
ACTS = pytest.mark.parametrize("act", [CaptureCoordinator.stop, CaptureCoordinator.delete])


def obeys(orders: AgentPollResponse, capture: Capture, act: Act) -> None:
    """A sidecar is not told to begin a capture that has been stopped or deleted."""
    assert [one.capture for one in orders.capture_jobs] == []
    assert orders.stop_captures == ((capture.id,) if act is CaptureCoordinator.stop else ())


async def reached(gate: Gate) -> None:
    await asyncio.to_thread(gate.reached.wait, 60)
    assert gate.reached.is_set()


@ACTS
async def test_stale_list_read_gives_no_order_of_a_stopped_capture(act: Act) -> None:
    with closing(Collectors()) as at:
        (desk,) = at.desks
        await desk.handle_poll(poll())
        capture = await desk.start(wish())
        with at.store.held("get") as gate:
            looking = asyncio.create_task(desk.start(wish("cart")))  # which looks at all there are
            await reached(gate)
            await act(desk, capture.id)
        await looking
        obeys(await desk.handle_poll(poll()), capture, act)


@ACTS
async def test_claim_that_finishes_after_a_stop_gives_no_order(act: Act) -> None:
    with closing(Collectors()) as at:
        (desk,) = at.desks
        capture = await desk.start(wish())
        with at.store.held("put") as gate:
            asking = asyncio.create_task(desk.handle_poll(poll()))
            await reached(gate)
            await act(desk, capture.id)
        obeys(await asking, capture, act)


@ACTS
async def test_stop_during_the_last_read_before_an_order_gives_no_order(act: Act) -> None:
    with closing(Collectors()) as at:
        (desk,) = at.desks
        await desk.handle_poll(poll())
        capture = await desk.start(wish())
        with at.store.held("get") as gate:
            asking = asyncio.create_task(desk.handle_poll(poll()))
            await reached(gate)
            await act(desk, capture.id)
        obeys(await asking, capture, act)


@ACTS
async def test_report_read_before_a_stop_gives_no_order_to_another_sidecar(act: Act) -> None:
    with closing(Collectors(2)) as at:
        first, second = at.desks
        await first.handle_poll(poll("a"))
        await first.handle_poll(poll("b"))
        capture = await first.start(wish(pods=2))
        with at.store.held("get") as gate:
            telling = asyncio.create_task(
                second.handle_poll(poll("a", CaptureReport(capture.id, CaptureState.SAMPLING)))
            )
            await reached(gate)
            await act(second, capture.id)
        assert (await telling).capture_jobs == ()
        obeys(await second.handle_poll(poll("b")), capture, act)


@ACTS
async def test_stop_at_another_collector_gives_no_order_here(act: Act) -> None:
    with closing(Collectors(2)) as at:
        here, elsewhere = at.desks
        await here.handle_poll(poll())
        capture = await here.start(wish())
        await act(elsewhere, capture.id)
        obeys(await here.handle_poll(poll()), capture, act)


async def test_stop_reaches_a_running_sidecar_despite_a_stale_list_read() -> None:
    with closing(Collectors()) as at:
        (desk,) = at.desks
        await desk.handle_poll(poll())
        capture = await desk.start(wish())
        assert [one.capture for one in (await desk.handle_poll(poll())).capture_jobs] == [capture.id]
        told = poll("a", CaptureReport(capture.id, CaptureState.SAMPLING))
        with at.store.held("get") as gate:
            looking = asyncio.create_task(desk.start(wish("cart")))
            await reached(gate)
            await desk.stop(capture.id)
        await looking
        assert (await desk.handle_poll(told)).stop_captures == (capture.id,)


async def waiting(at: Collectors, desk: int = 0) -> asyncio.Task[AgentPollResponse]:
    """A poll of sidecar a that is held."""
    task = asyncio.create_task(at.desks[desk].handle_poll(replace(poll(), timeout_seconds=HOLD)))
    await until("the poll is held", lambda: at.value("sidelight_pending_polls", desk) == 1)
    return task


async def until(what: str, check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.01)
    assert check(), what


async def orders(asking: asyncio.Task[AgentPollResponse]) -> list[str]:
    """What a held poll is told to begin, long before its time is over."""
    return [one.capture for one in (await asyncio.wait_for(asking, HOLD / 2)).capture_jobs]


async def test_claim_that_is_written_while_the_capture_is_created_wakes_its_poll() -> None:
    with closing(Collectors()) as at:
        (desk,) = at.desks
        asking = await waiting(at)
        with at.store.held("put") as creating:
            beginning = asyncio.create_task(desk.start(wish()))
            await reached(creating)
            with at.store.held("put") as claiming:
                looking = asyncio.create_task(desk.start(wish("cart")))  # which finds it in the list
                await reached(claiming)
                creating.released.set()
                await until("it is begun", lambda: at.value("sidelight_captures_started_total") == 1)
        capture = await beginning
        await looking
        assert await orders(asking) == [capture.id]


async def test_claim_by_another_collector_wakes_the_poll_that_is_held_here() -> None:
    with closing(Collectors(2)) as at:
        elsewhere, here = at.desks
        await elsewhere.handle_poll(poll())
        asking = await waiting(at, 1)
        capture = await elsewhere.start(wish())
        await here.start(wish("cart"))  # which looks at all there are
        assert await orders(asking) == [capture.id]


async def test_of_two_collectors_as_many_sidecars_take_a_capture_as_were_asked_for(
    store: ObjectStore,
) -> None:
    with closing(Collectors(2, store, look_seconds=0.02)) as at:
        stop = asyncio.Event()
        looking = [asyncio.create_task(desk.run(stop)) for desk in at.desks]
        asking = [
            asyncio.create_task(desk.handle_poll(replace(poll(f"{pod}-{number}"), timeout_seconds=HOLD)))
            for pod in range(6)
            for number, desk in enumerate(at.desks)
        ]
        capture = await at.desks[0].start(wish(pods=3))
        await until("three are told", lambda: sum(one.done() for one in asking) >= 3)
        for desk in at.desks:
            desk.close()
        stop.set()
        told = [one for asked in await asyncio.gather(*asking) for one in asked.capture_jobs]
        await asyncio.gather(*looking)
        assert [one.capture for one in told] == [capture.id] * 3
        assert len(at.shelves[1].get(capture.id).claims) == 3


async def test_closing_wakes_polls_that_their_sidecar_abandoned_for_another() -> None:
    polls = PendingPolls(100, Metrics())
    waits = [asyncio.create_task(polls.wait("a", HOLD, lambda: False)) for _ in range(2)]
    await asyncio.sleep(0)  # Each waits now.
    assert polls.is_waiting("a")
    polls.wake_all()
    async with asyncio.timeout(60):
        await asyncio.gather(*waits)
    assert not polls.is_waiting("a")
