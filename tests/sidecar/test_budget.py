"""The governor against simulated processes: what it allows, how it settles, that it recovers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidelight_sidecar.overhead.budget import (
    CPU,
    MAX_WINDOW_STRIDE,
    MIN_RATE_HZ,
    REDUCTION_REASONS,
    STOPS,
    SUSPEND_SECONDS,
    Budget,
    ProcessCost,
    RateLimit,
    admit_process,
    compute_max_min_shares,
    compute_target_rates,
    rebalance_rates,
    record_usage,
)
from sidelight_sidecar.samplers.sampler import SamplingCost

BUDGET = Budget(cpu_share=0.01, stop_share=0.01)
WINDOW = 10.0


@dataclass
class Process:
    """A simulated process: a tick at `hz` takes tick_cpu * hz ** bend (give or take `noise`), and stops."""

    tick_cpu: float
    tick_stop: float = 0.0
    bend: float = 0.0
    noise: float = 0.0

    def sampled(self, hz: float, seconds: float, luck: random.Random) -> SamplingCost:
        ticks = max(1, round(hz * seconds))
        factor = (hz / 100) ** self.bend * (1 + luck.uniform(-self.noise, self.noise))
        # Of a window shorter than a tick, what a tick took is told as if there had been one.
        seconds = ticks / hz
        return SamplingCost(
            seconds, hz, ticks, ticks * self.tick_cpu * factor, ticks * self.tick_stop * factor
        )


@dataclass
class Machine:
    """Processes whose windows all end together; remembers what each window took."""

    processes: dict[int, Process]
    asked_hz: float = 100.0
    window: float = WINDOW
    budget: Budget = BUDGET
    now: float = 0.0
    luck: random.Random = field(default_factory=lambda: random.Random(1))
    accounts: dict[int, ProcessCost] = field(default_factory=dict)
    last: dict[int, SamplingCost] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    stood: list[float] = field(default_factory=list)
    rates: dict[int, list[float]] = field(default_factory=dict)

    def run(self, windows: int) -> None:
        for number in range(windows):
            for key in self.processes:
                if key not in self.accounts:
                    self.accounts[key] = admit_process(
                        self.accounts, key, self.asked_hz, self.budget, self.now
                    )
            cpu, worst = 0.0, 0.0
            self.now += self.window
            for key, process in self.processes.items():
                account = self.accounts[key]
                allowance = account.rate_limit
                self.rates.setdefault(key, []).append(allowance.mean_hz)
                if allowance.is_suspended:
                    continue
                sampled = number % allowance.window_stride == 0 or key not in self.last
                if sampled or self.last[key].rate_hz != allowance.rate_hz:
                    self.last[key] = process.sampled(allowance.rate_hz, self.window, self.luck)
                used = self.last[key]
                # A first window that takes far too much is ended after a second.
                part = 1.0 if account.has_measurements else min(1.0, 1.0 / self.window)
                cpu += part * used.cpu_seconds / used.seconds / allowance.window_stride
                worst = max(worst, part * used.stopped_seconds / used.seconds / allowance.window_stride)
                if sampled:
                    self.accounts[key] = record_usage(account, used)
            self.took.append(cpu)
            self.stood.append(worst)
            self.accounts = rebalance_rates(self.accounts, self.budget, self.now)

    def swings(self, key: int) -> int:
        """How often the rate was raised and then lowered."""
        moves = [later - earlier for earlier, later in pairwise(self.rates[key]) if later != earlier]
        return sum(1 for move, following in pairwise(moves) if move > 0 > following)


def test_the_processes_of_a_pod_share_its_budget_and_leave_the_rest_to_others() -> None:
    budget = Budget(0.05, 0.01)
    cost = ProcessCost(
        100.0, RateLimit(100.0), 0.0, tick_cpu_seconds=400e-6, has_measurements=True, pod_cpu_share=0.01
    )
    costs = {key: replace(cost, pod=pod) for key, pod in enumerate(["large"] * 8 + ["small"])}
    costs[8] = replace(costs[8], tick_cpu_seconds=50e-6)
    rates = [rate for rate, _ in compute_target_rates(costs, budget).values()]
    assert rates == pytest.approx([0.008 / 8 / 400e-6] * 8 + [100.0])
    settled = rebalance_rates(costs, budget, 1.0)
    assert settled[0].rate_limit.reasons == (CPU,)
    assert settled[8].rate_limit == RateLimit(100.0)
    nothing = replace(costs[8], pod_cpu_share=1e-322)
    assert rebalance_rates({8: nothing}, budget, 1.0)[8].rate_limit == RateLimit(0.0, 0, (CPU,))
    # The node's budget holds as well, whatever the pods' sum is.
    node = Budget(0.005, 0.01)
    taken = sum(
        rate * costs[key].tick_cpu_seconds for key, (rate, _) in compute_target_rates(costs, node).items()
    )
    assert taken == pytest.approx(0.004)


def test_a_process_that_costs_little_is_sampled_as_asked() -> None:
    machine = Machine({1: Process(40e-6)})
    machine.run(100)
    assert machine.rates[1] == [100.0] * 100
    assert machine.accounts[1].rate_limit == RateLimit(100.0)


def test_over_the_cpu_budget_the_rate_falls_after_one_window_and_says_why() -> None:
    machine = Machine({1: Process(400e-6)})
    machine.run(2)
    assert machine.rates[1] == [100.0, 20.0]
    assert machine.accounts[1].rate_limit == RateLimit(20.0, 1, (CPU,))


def test_a_process_that_stands_still_too_long_is_slowed_alone() -> None:
    machine = Machine({1: Process(10e-6, tick_stop=400e-6), 2: Process(10e-6)})
    machine.run(50)
    assert machine.accounts[1].rate_limit == RateLimit(20.0, 1, (STOPS,))
    assert machine.accounts[2].rate_limit == RateLimit(100.0)


def test_what_takes_little_keeps_its_rate_and_the_rest_is_shared() -> None:
    machine = Machine({1: Process(5e-6), 2: Process(200e-6), 3: Process(400e-6)})
    machine.run(50)
    rates = {key: account.rate_limit.rate_hz for key, account in machine.accounts.items()}
    assert rates == {1: 100.0, 2: 18.0, 3: 9.0}


def test_below_the_floor_windows_are_left_out_instead() -> None:
    machine = Machine({1: Process(10e-3)})
    machine.run(20)
    assert machine.accounts[1].rate_limit == RateLimit(MIN_RATE_HZ, 7, (CPU,))


def test_many_processes_take_turns_rather_than_none_being_sampled() -> None:
    machine = Machine({key: Process(2e-3) for key in range(64)})
    machine.run(300)
    allowances = [account.rate_limit for account in machine.accounts.values()]
    assert not any(allowance.is_suspended for allowance in allowances)
    assert max(machine.took[200:]) <= BUDGET.cpu_share


@pytest.mark.parametrize("process", [Process(100e-3), Process(10e-6, tick_stop=100e-3)])
def test_a_process_that_fits_in_no_way_is_left_alone_and_tried_again(process: Process) -> None:
    machine = Machine({1: process})
    machine.run(10)
    assert machine.accounts[1].rate_limit.is_suspended
    begun = machine.now
    machine.processes[1] = Process(10e-6)
    machine.run(300)
    assert machine.accounts[1].rate_limit == RateLimit(100.0)
    tried = next(index for index, rate in enumerate(machine.rates[1][10:]) if rate)
    assert SUSPEND_SECONDS - 100 <= tried * WINDOW <= SUSPEND_SECONDS + 2 * WINDOW
    assert begun < SUSPEND_SECONDS


def test_an_asked_rate_below_the_floor_is_its_own_floor() -> None:
    machine = Machine({1: Process(50e-3)}, asked_hz=1.0)
    machine.run(10)
    assert machine.accounts[1].rate_limit == RateLimit(1.0, 7, (CPU,))


def test_a_new_process_is_first_taken_for_one_like_the_others() -> None:
    machine = Machine({1: Process(1e-3)})
    machine.run(5)
    machine.processes[2] = Process(1e-3)
    new = admit_process(machine.accounts, 2, 100.0, BUDGET, machine.now)
    assert new.rate_limit.rate_hz == MIN_RATE_HZ
    assert not new.has_measurements


def test_a_window_without_a_tick_tells_nothing() -> None:
    account = admit_process({}, 1, 100.0, BUDGET, 0.0)
    assert record_usage(account, SamplingCost(10.0, 100.0, 0, 0.0, 0.0)) is account


def test_a_rate_is_raised_in_steps_once_there_is_room_again() -> None:
    machine = Machine({1: Process(400e-6)})
    machine.run(10)
    machine.processes[1] = Process(40e-6)
    machine.run(60)
    assert machine.rates[1][-1] == 100.0
    climb = sorted(set(machine.rates[1][10:]))
    assert all(later <= 1.5 * earlier for earlier, later in pairwise(climb))


def test_busy_and_idle_minutes_in_turn_swing_the_rate_two_dozen_times_an_hour_at_most() -> None:
    machine = Machine({1: Process(400e-6)})
    for minute in range(120):
        machine.processes[1] = Process(400e-6 if minute % 2 else 20e-6)
        machine.run(6)
    assert machine.swings(1) <= 2 * 24


costs = st.floats(1e-6, 20e-3)
processes = st.builds(Process, costs, st.floats(0, 5e-3), bend=st.floats(-0.9, 1.0), noise=st.floats(0, 0.4))
machines: Callable[..., st.SearchStrategy[Machine]] = lambda: st.builds(  # noqa: E731
    Machine,
    st.lists(processes, min_size=1, max_size=6).map(lambda all_of: dict(enumerate(all_of))),
    asked_hz=st.integers(1, 1000).map(float),
    window=st.floats(1, 60),
    luck=st.integers(0, 999).map(random.Random),
)


def times_above(limit: float, values: list[float]) -> int:
    """How often the values rise above a limit."""
    above = [value > limit * 1.001 for value in values]
    return above[0] + sum(1 for one, following in pairwise(above) if following and not one)


def near_the_limit() -> Machine:
    """A settled rate with a mean of 81 % of the budget, of whose windows every twentieth is just above it."""
    process = Process(6.1e-5, bend=0.5, noise=0.25)
    return Machine({0: process}, asked_hz=153.0, window=1.0, luck=random.Random(678))


@example(near_the_limit())
@given(machines())
def test_sampling_settles_below_the_budget_whatever_it_costs(machine: Machine) -> None:
    machine.run(60)
    settled, windows = len(machine.took), 200
    machine.run(windows)
    # Each try to go up again may fail.
    tries = len(machine.processes) * (6 + 24 * windows * machine.window / 3600)
    # A rate is lowered once its estimated cost exceeds the budget, and the estimate settles above the mean of
    # the windows. So the mean at a rate that is kept is within the budget, and a window exceeds it by no more
    # than the noise.
    noise = 1 + max(process.noise for process in machine.processes.values())
    assert times_above(BUDGET.cpu_share * noise, machine.took[settled:]) <= tries
    assert times_above(BUDGET.stop_share * noise, machine.stood[settled:]) <= tries
    assert sum(machine.took[settled:]) / windows <= BUDGET.cpu_share * 1.000001


@given(machines())
def test_no_rate_swings_more_than_stated(machine: Machine) -> None:
    machine.run(300)
    hours = 300 * machine.window / 3600
    for key in machine.processes:
        assert machine.swings(key) <= 6 + 24 * hours


@settings(max_examples=30)
@given(machines())
def test_every_process_comes_back_to_what_was_asked_when_there_is_room(machine: Machine) -> None:
    machine.run(50)
    machine.processes = dict.fromkeys(machine.processes, Process(0.1e-6))
    machine.run(round((SUSPEND_SECONDS + 1200) / machine.window) + 300)
    asked = RateLimit(machine.asked_hz)
    assert {account.rate_limit for account in machine.accounts.values()} == {asked}


@given(machines())
def test_whatever_is_below_what_was_asked_says_why_in_known_words(machine: Machine) -> None:
    machine.run(40)
    for account in machine.accounts.values():
        as_asked = account.rate_limit.mean_hz == machine.asked_hz
        assert bool(account.rate_limit.reasons) != as_asked
        assert set(account.rate_limit.reasons) <= set(REDUCTION_REASONS)
        assert account.rate_limit.rate_hz <= machine.asked_hz
        if account.rate_limit.window_stride > 1:
            assert account.rate_limit.rate_hz == min(MIN_RATE_HZ, machine.asked_hz)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 5))
def test_fair_shares_fit_the_room_and_nobody_is_passed_over(needs: list[float], room: float) -> None:
    shares = compute_max_min_shares(needs, room)
    assert sum(shares) == pytest.approx(min(room, sum(needs)))
    short = [share for share, need in zip(shares, needs, strict=True) if share < need - 1e-12]
    for share, need in zip(shares, needs, strict=True):
        assert share <= need
        assert share >= max(short, default=0.0) - 1e-9 or share == need


@given(machines())
def test_the_ideal_takes_four_fifths_of_the_budget_at_most(machine: Machine) -> None:
    machine.run(5)
    best = compute_target_rates(machine.accounts, BUDGET)
    cpu = sum(hz * machine.accounts[key].tick_cpu_seconds for key, (hz, _) in best.items())
    assert cpu <= 0.8 * BUDGET.cpu_share * 1.0001
    for key, (hz, _) in best.items():
        assert hz * machine.accounts[key].tick_stop_seconds <= 0.8 * BUDGET.stop_share * 1.0001


def test_the_longest_row_bounds_how_rarely_one_process_alone_is_sampled() -> None:
    machine = Machine({1: Process(30e-3)})
    machine.run(10)
    allowance = machine.accounts[1].rate_limit
    assert 1 < allowance.window_stride <= MAX_WINDOW_STRIDE
    assert replace(allowance, reasons=()) == RateLimit(MIN_RATE_HZ, 19)
