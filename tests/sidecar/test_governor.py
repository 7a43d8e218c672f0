"""The governor's bookkeeping, on a clock that stands still unless it is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sidelight_model.errors import Reason
from sidelight_model.window import Quality
from sidelight_sidecar.discovery.cgroup import Cgroups
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead import governor
from sidelight_sidecar.overhead.budget import (
    CGROUP,
    CPU,
    STOPS,
    Budget,
    ProcessCost,
    RateLimit,
    rebalance_rates,
)
from sidelight_sidecar.overhead.governor import CAPTURE, ORDINARY, Governor
from sidelight_sidecar.samplers.sampler import SampleBatch

MS = 10**6
ONE, TWO = ProcessKey(1, 10), ProcessKey(2, 20)


def sampled(
    seconds: float = 10.0,
    *,
    ticks: int = 1000,
    cpu_ms: float = 50,
    stopped_ms: float = 0,
    mode: str = "gil",
    stops_over_limit: int = 0,
) -> SampleBatch:
    quality = Quality(
        attempts=ticks, mode=mode, sampler_cpu_ns=round(cpu_ms * MS), stopped_ns=round(stopped_ms * MS),
        longest_stop_ns=round(stopped_ms * MS),
    )  # fmt: skip
    return SampleBatch({"main": {}}, 0, round(seconds * 1e9), quality, stops_over_limit=stops_over_limit)


@dataclass
class House:
    """A governor and all it looks at."""

    root: Path
    now: float = 0.0
    engine: float = 0.0
    metrics: SidecarMetrics = field(default_factory=SidecarMetrics)
    board: HealthBoard = field(default_factory=HealthBoard)

    def __post_init__(self) -> None:
        budgets = {ORDINARY: Budget(0.01, 0.01), CAPTURE: Budget(0.1, 0.1, can_skip_windows=False)}
        self.governor = Governor(
            budgets, Cgroups(self.root), lambda: self.engine, self.metrics, self.board, lambda: self.now
        )

    def window(self, key: ProcessKey, part: SampleBatch, rate_hz: float = 100.0) -> None:
        used = part.compute_cost(rate_hz, stops_target=True)
        self.now += used.seconds
        self.engine += used.cpu_seconds
        self.governor.record_partial(key, part, used)
        self.governor.record_window(key, used)

    async def tick(self, *, seconds: float = 1.0, engine: float = 0.0) -> None:
        self.now += seconds
        self.engine += engine
        await self.governor.tick()

    def metric(self, name: str, **labels: str) -> float:
        value = self.metrics.registry.get_sample_value(f"sidelight_sidecar_{name}", labels)
        assert value is not None
        return value


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def limit(root: Path, *, throttles: int = 0) -> None:
    """The files of a sidecar with 5 % of a core, in a pod with a service beside it."""
    for name, path in {"self": "/pod/sidecar", "1": "/pod/service", "2": "/pod/sidecar/inner"}.items():
        folder = root / "proc" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::{path}\n")
    (root / "proc/self/mountinfo").write_text("1 2 0:1 / /cg rw - cgroup2 cgroup2 rw\n")
    own = root / "cg/pod/sidecar"
    own.mkdir(parents=True, exist_ok=True)
    (own / "cpu.max").write_text("5000 100000")
    (own / "cpu.stat").write_text(
        f"usage_usec 0\nnr_throttled {throttles}\nthrottled_usec {throttles * 90_000}"
    )


def test_a_process_over_budget_is_slowed_from_its_next_window_on(house: House) -> None:
    house.governor.add(ONE, 100)
    assert house.governor.get_rate_limit(ONE) == RateLimit(100)
    house.window(ONE, sampled(cpu_ms=400, stopped_ms=50))
    assert house.governor.get_rate_limit(ONE) == RateLimit(20, 1, (CPU,))


async def test_windows_that_cost_what_they_did_change_no_rates_before_the_next_tick(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work for each window does not grow with the number of processes."""
    seen: list[int] = []

    def count(costs: Mapping[ProcessKey, ProcessCost], *rest: Any) -> dict[ProcessKey, ProcessCost]:
        seen.append(len(costs))
        return rebalance_rates(costs, *rest)

    keys = [ProcessKey(pid, 1) for pid in range(1, 61)]
    for key in keys:
        house.governor.add(key, 5)
        house.window(key, sampled(ticks=50, cpu_ms=1), rate_hz=5.0)
    monkeypatch.setattr(governor, "rebalance_rates", count)
    for key in keys:
        house.window(key, sampled(ticks=50, cpu_ms=1), rate_hz=5.0)
    assert seen == []
    await house.tick()
    assert seen == [60, 0]
    house.window(keys[0], sampled(ticks=50, cpu_ms=2), rate_hz=5.0)
    assert seen == [60, 0, 60]


def test_a_process_that_stands_still_too_long_is_slowed(house: House) -> None:
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(cpu_ms=5, stopped_ms=400))
    assert house.governor.get_rate_limit(ONE) == RateLimit(20, 1, (STOPS,))


def test_a_window_that_holds_a_process_up_far_too_long_is_ended_early(house: House) -> None:
    house.governor.add(ONE, 100)
    house.governor.begin_window(ONE)
    part = sampled(1.0, ticks=100, cpu_ms=5, stopped_ms=15)
    house.governor.record_partial(ONE, part, part.compute_cost(100, stops_target=True))
    assert not house.governor.must_end_window(ONE)
    part = sampled(1.0, ticks=100, cpu_ms=5, stopped_ms=25)
    house.governor.record_partial(ONE, part, part.compute_cost(100, stops_target=True))
    assert house.governor.must_end_window(ONE)
    house.governor.record_window(ONE, part.compute_cost(100, stops_target=True))
    assert not house.governor.must_end_window(ONE)
    assert house.governor.get_rate_limit(ONE) == RateLimit(32, 1, (STOPS,))


async def test_every_open_window_is_ended_early_when_the_engine_takes_twice_the_budget(house: House) -> None:
    house.governor.add(ONE, 100)
    house.governor.add(TWO, 100)
    await house.tick(engine=0.015)
    assert not house.governor.must_end_window(ONE)
    await house.tick(engine=0.025)
    assert house.governor.must_end_window(ONE)
    assert house.governor.must_end_window(TWO)
    house.governor.begin_window(ONE)
    assert not house.governor.must_end_window(ONE)


async def test_what_was_foreseen_ends_no_window_early(house: House) -> None:
    """A process that is sampled in one window of four takes four times the budget in that one."""
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(ticks=50, cpu_ms=300), rate_hz=5.0)
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(ticks=1000, cpu_ms=6000))
    allowance = house.governor.get_rate_limit(ONE)
    assert allowance is not None
    assert allowance.window_stride == 4
    await house.tick()
    house.governor.begin_window(ONE)
    await house.tick(engine=0.035)
    assert not house.governor.must_end_window(ONE)


def test_the_time_a_command_takes_stands_for_how_long_it_stops_its_target(house: House) -> None:
    house.governor.add(ONE, 100)
    house.window(ONE, replace(sampled(cpu_ms=400), quality=Quality(mode="command", sampler_cpu_ns=400 * MS)))
    assert house.governor.get_rate_limit(ONE) == RateLimit(20, 1, (STOPS,))


def test_captures_have_a_budget_of_their_own_and_are_never_left_out(house: House) -> None:
    house.governor.add(ONE, 100)
    house.governor.add(TWO, 1000, CAPTURE)
    house.window(TWO, sampled(ticks=10_000, cpu_ms=600), rate_hz=1000)
    assert house.governor.get_rate_limit(TWO) == RateLimit(1000)
    house.window(TWO, sampled(ticks=10_000, cpu_ms=100_000), rate_hz=1000)
    assert house.governor.get_rate_limit(TWO) == RateLimit(8, 1, (CPU,))
    house.window(TWO, sampled(ticks=80, cpu_ms=80_000), rate_hz=8)
    assert house.governor.get_rate_limit(TWO) == RateLimit(5, 1, (CPU,))
    assert house.governor.get_rate_limit(ONE) == RateLimit(100)


def test_what_was_learnt_of_a_process_is_not_forgotten_over_a_capture(house: House) -> None:
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(cpu_ms=400))
    house.governor.remove(ONE)
    assert house.governor.get_rate_limit(ONE) is None
    house.governor.add(ONE, 1000, CAPTURE)
    assert house.governor.get_rate_limit(ONE) == RateLimit(200, 1, (CPU,))
    house.governor.remove(ONE)
    house.governor.add(ONE, 100)
    assert house.governor.get_rate_limit(ONE) == RateLimit(20, 1, (CPU,))
    house.governor.forget(ONE)
    house.governor.add(ONE, 100)
    assert house.governor.get_rate_limit(ONE) == RateLimit(100)


def test_a_process_that_is_left_alone_is_a_problem_with_what_to_do(house: House) -> None:
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(ticks=100, cpu_ms=10_000))
    allowance = house.governor.get_rate_limit(ONE)
    assert allowance is not None
    assert allowance.is_suspended
    problem = house.board.issues["budget of process 1"]
    assert problem.reason is Reason.OVER_BUDGET
    assert "100 ms of CPU" in problem.message
    assert "--budget-cpu-percent" in problem.hint
    house.governor.forget(ONE)
    assert house.board.issues == {}


async def test_what_sampling_takes_beside_ticks_comes_out_of_the_budget(house: House) -> None:
    house.governor.add(ONE, 100)
    for _ in range(30):
        house.window(ONE, sampled(1.0, ticks=100, cpu_ms=1))
        await house.tick(engine=0.016)
    assert house.governor.get_rate_limit(ONE) == RateLimit(100)
    house.window(ONE, sampled(ticks=1000, cpu_ms=50))
    assert house.governor.get_rate_limit(ONE) == RateLimit(32, 1, (CPU,))


async def test_metrics_say_what_it_takes_and_why_rates_are_reduced(house: House) -> None:
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(cpu_ms=5))
    house.governor.add(TWO, 100)
    house.window(ONE, sampled(cpu_ms=5, stopped_ms=400, stops_over_limit=2))
    house.window(ONE, sampled(ticks=200, cpu_ms=1, stopped_ms=80, stops_over_limit=1), rate_hz=20)
    await house.tick()
    assert house.metric("stops_over_limit_total") == 3
    assert house.metric("reduced_rate_processes", reason=STOPS) == 1
    assert house.metric("reduced_rate_processes", reason=CPU) == 0
    assert house.metric("rate_hz", bound="lowest") == 20
    assert house.metric("rate_hz", bound="highest") == 100
    assert house.metric("stopped_ratio") == pytest.approx(0.008)
    assert house.metric("longest_stop_seconds") == pytest.approx(0.4)
    assert house.metric("sampler_cpu_seconds_total") == pytest.approx(0.011)
    await house.tick(seconds=60)
    assert house.metric("longest_stop_seconds") == 0


async def test_nobody_is_stopped_while_the_cpu_limit_is_near_and_everybody_again_later(
    tmp_path: Path,
) -> None:
    limit(tmp_path)
    house = House(tmp_path)
    service, beside, unstopped = ONE, TWO, ProcessKey(3, 30)
    house.governor.add(service, 100)
    house.governor.add(beside, 100)
    house.governor.add(unstopped, 100, stops_target=False)
    await house.tick()
    assert house.metric("cpu_limit_cores") == 0.05
    limit(tmp_path, throttles=1)
    await house.tick()
    assert house.governor.get_rate_limit(service) == RateLimit(0, 1, (CGROUP,))
    assert house.governor.must_end_window(service)
    for key in (beside, unstopped):
        allowance = house.governor.get_rate_limit(key)
        assert allowance is not None
        assert allowance.rate_hz > 0
    assert house.board.issues["cpu limit"].reason is Reason.THROTTLED
    assert house.metric("reduced_rate_processes", reason=CGROUP) >= 1
    assert house.metric("throttled_seconds_total") == pytest.approx(0.09)
    await house.tick(seconds=9)
    assert house.governor.must_end_window(service)
    await house.tick(seconds=2)
    allowance = house.governor.get_rate_limit(service)
    assert allowance is not None
    assert allowance.rate_hz > 0
    assert house.board.issues == {}


async def test_sampling_uses_a_quarter_of_the_cpu_limit_at_most(tmp_path: Path) -> None:
    limit(tmp_path)
    (tmp_path / "cg/pod/sidecar/cpu.max").write_text("2000 100000")
    house = House(tmp_path)
    await house.tick()
    house.governor.add(ONE, 100)
    house.window(ONE, sampled(cpu_ms=80))
    assert house.governor.get_rate_limit(ONE) == RateLimit(50, 1, (CGROUP,))
