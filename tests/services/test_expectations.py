"""What the matrix of services calls wrong, on services written down."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.services.expectations import Process, Seen, allowed, problems
from tests.services.page import Result, page
from tests.services.stacks import SERVICES, SHORT

SERVICE = SERVICES["flask, gunicorn sync"]
RIGHT = Seen(
    processes=[
        Process(1, "master", 1000, 0, 2, Counter({"select": 2}), cpu=0.002),
        Process(2, "worker", 1000, 3, 90, Counter({"burn": 60, "write": 30}), cpu=0.09, waited=0.02),
        Process(3, "worker", 1000, 0, 85, Counter({"burn": 58, "write": 27}), cpu=0.09, waited=0.02),
    ],
    alive=[1, 2, 3],
    unseen=[],
    stopped=[],
    burnt=0.12,
)


def with_worker(**changed: object) -> Seen:
    master, worker, other = RIGHT.processes
    return replace(RIGHT, processes=[master, replace(worker, **changed), other])  # type: ignore[arg-type]


def test_a_service_that_is_seen_as_it_is_has_no_problem() -> None:
    assert problems(SERVICE, RIGHT) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (with_worker(role="main"), "the processes are"),
        (replace(RIGHT, alive=[1, 2]), "the processes are"),
        (replace(RIGHT, stopped=[2]), "process 2 was left stopped"),
        (replace(RIGHT, unseen=[9]), "process 9 runs Python and was not sampled"),
        (replace(RIGHT, unanswered={"timeout": 4}), "4 requests ended in timeout"),
        (with_worker(leaves=Counter({"select": 400, "burn": 60})), "end in select, not in burn"),
        (with_worker(leaves=Counter({"burn": 400})), "burn was seen 0.457 of the time, and took 0.120"),
        (with_worker(busy=400), "worker 2 was busy 0.400 of the time as sampled, 0.090"),
        (with_worker(busy=10), "worker 2 was busy 0.010"),
        (with_worker(failed=200), "200 of 1200 ticks of worker 2 failed"),
        (with_worker(failed=200, busy=0), "200 of 1200 ticks of worker 2 failed"),
    ],
)
def test_each_thing_that_is_wrong_is_said(seen: Seen, said: str) -> None:
    found = problems(SERVICE, seen)
    assert said in "; ".join(found)


def test_workers_that_come_and_go_share_the_time_of_their_master() -> None:
    service = replace(SERVICE, recycled=True)
    master = RIGHT.processes[0]
    workers = [
        Process(pid, "worker", 250, 0, 23, Counter({"burn": 15, "write": 8}), cpu=0.09, waited=0.02)
        for pid in range(2, 10)
    ]
    seen = replace(RIGHT, processes=[master, *workers])
    assert problems(service, seen) == []
    assert "burn was seen 0.120 of the time, and took 0.480" in problems(service, replace(seen, burnt=0.48))
    twice = [replace(one, leaves=Counter({"burn": 60}), busy=60, cpu=0.24) for one in workers]
    assert "took 0.120" in "; ".join(problems(service, replace(seen, processes=[master, *twice])))


def test_time_that_a_process_waited_for_a_core_may_be_seen_as_running() -> None:
    assert problems(SERVICE, with_worker(busy=300, waited=0.25)) == []
    assert problems(SERVICE, with_worker(busy=20, waited=0.25)) != []


def test_a_tick_that_failed_may_have_been_busy_or_not() -> None:
    assert problems(SERVICE, with_worker(busy=10, failed=60, waited=0.2)) == []
    assert problems(SERVICE, with_worker(busy=10, failed=20, waited=0.2)) != []


def test_bounds_narrow_with_the_number_of_ticks() -> None:
    assert allowed(0.2, 100) == pytest.approx(0.17)
    assert allowed(0.2, 10_000) == pytest.approx(0.026)


def test_a_page_says_what_ran_what_was_wrong_and_what_could_not_be_installed() -> None:
    name = SERVICE.name
    right = Result(name, "3.11.7", "ok", "", 0.871, 0.874, 0.02, 0.6, "gil", "sidelight 1", {"flask": "3.0"})
    missing = Result(name, "3.8.18", "missing", "not installed: error: no wheel")
    wrong = Result(
        name, "3.10.13", "wrong", "process 2 was left stopped", 0.5, 0.9, 0.0, 0.6, "blocking", "py-spy"
    )
    free_threaded = replace(right, python="3.11.4t")
    results = [free_threaded, right, missing, wrong]
    lines = page(results, seconds=10, rate=30, machine="2 cores").splitlines()
    assert "|service|3.8.18|3.10.13|3.11.7|3.11.4t|" in lines
    assert f"|{name}|-(1)|**wrong**(2)|87.1/87.4+2|87.1/87.4+2|" in lines
    assert "|any service on PyPy|-(3)|-(3)|-(3)|-(3)|" in lines
    assert "1. not installed: error: no wheel" in lines
    assert "2. process 2 was left stopped" in lines
    assert "- Python 3.11.7, 3.11.4t: sidelight 1, mode `gil`" in lines
    assert "|flask|-|-|3.0|3.0|" in lines


def test_every_service_has_its_app_and_its_pins() -> None:
    from tests.services.stacks import APPS
    from tests.services.venvs import REQUIREMENTS

    for service in [*SERVICES.values(), *SHORT.values()]:
        named = [word.partition(":")[0].removesuffix(".py") for word in service.argv if "_app" in word]
        assert named, service.name
        assert all((APPS / f"{app}.py").exists() for app in named), service.name
        assert not service.requirements or (REQUIREMENTS / f"{service.requirements}.txt").exists()
