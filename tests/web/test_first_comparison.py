"""The compare page opened for the first time, without times: usual rollouts of a version that takes more."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, Request, expect

from sidelight_model.window import Quality, Window
from tests.collector.stored_windows import START_NS, window
from tests.web.conftest import KEEP_PREFETCHED, Open, Serve
from tests.web.flame import boxes
from tests.web.profiles import send

FUNCTIONS = 30
MINUTE = 60.0
WATCHED = Quality(attempts=6000, samples=6000, mode="gil", sampler="sidelight", reader="own", python="3.11.7")


def run(
    service: str, version: str, first: int, last: int, *, pods: int = 3, doubled: int = -1
) -> Iterable[Window]:
    """A version from `first` to `last` (minutes from now); one of its functions may take twice its time."""
    rng = np.random.default_rng(abs(first) + 1000 * pods)
    # Of whole minutes, so that windows lie in the same stretches of time whenever the test runs.
    now = time.time() // MINUTE * MINUTE - START_NS / 1e9 - MINUTE
    for pod in range(pods):
        for minute in range(first, last):
            load = rng.normal(1, 0.03)
            lines = [
                f"main (app.py:1);handle (app.py:5);step_{step} (steps.py:{step}) "
                f"{rng.poisson(123 * load * (2 if step == doubled else 1))}"
                for step in range(FUNCTIONS)
            ]
            yield window(
                " | ".join(lines), service=service, version=version, pod=f"{service}-{version}-{pod}",
                at=now + minute * MINUTE, seconds=MINUTE, quality=WATCHED,
            )  # fmt: skip


@pytest.fixture(scope="module")
def rollouts() -> dict[str, list[Window]]:
    """Services by the kind of their rollout, and their windows."""
    sides = {
        # The new version replaces the old one pod by pod.
        "rolling": [run("rolling", "v1", -60, -20), run("rolling", "v2", -40, 0, doubled=7)],
        "canary": [run("canary", "v1", -180, 0), run("canary", "v2", -60, 0, pods=1, doubled=7)],
        # The old version ends when the new one starts.
        "recreated": [run("recreated", "v1", -110, -55), run("recreated", "v2", -55, 0, doubled=7)],
    }
    return {kind: [each for of in both for each in of] for kind, both in sides.items()}


BASES = {
    "rolling": "Concurrent (automatic)",
    "canary": "Concurrent (automatic)",
    "recreated": "Composition (automatic)",
}


GROWTH = {"rolling": 1.0, "canary": 1.0, "recreated": 2 * FUNCTIONS / (FUNCTIONS + 1) - 1}
"""By how much the function's rate grows, and between different times its share of the profile."""
CHANGES = ("increased", "decreased", "new", "removed")


def ask(url: str, service: str, **sides: str) -> Any:
    """The verdict on a service's versions, with nothing else given but perhaps its sides."""
    matchers = {side: f'{{version="{version}"}}' for side, version in sides.items()}
    query = urlencode({"query": f'{{service="{service}"}}', **matchers})
    with urllib.request.urlopen(f"{url}/api/v1/verdict?{query}", timeout=60) as answer:
        return json.load(answer)["verdict"]


def open_comparison(page: Page, rest: str) -> None:
    """Follow the link to the comparison, which is requested once: when pointer or focus rests on it."""
    requests: list[str] = []

    def note(request: Request) -> None:
        if "/api/v1/compare?" in request.url:
            requests.append(request.url)

    page.on("request", note)
    link = page.get_by_role("link", name="Compare with previous version")
    expect(link).to_have_attribute("data-inside", "early")
    with page.expect_request(lambda request: "/api/v1/compare?" in request.url):
        getattr(link, rest)()
    link.press("Enter")
    expect(page.locator(".culprits tbody tr").first).to_contain_text("step_7")
    assert len(requests) == 1, rest
    assert urlsplit(page.url).query == "", "sides and times are the collector's choice"


def test_first_open_answers_for_a_rolling_deploy_a_canary_and_a_recreated_service(
    rollouts: dict[str, list[Window]], serve: Serve, open_page: Open
) -> None:
    running = serve()
    for kind, windows in rollouts.items():
        send(running.url, windows)
        page = open_page("about:blank")
        page.add_init_script(KEEP_PREFETCHED)
        page.goto(f"{running.url}/s/{kind}")
        open_comparison(page, "focus" if kind == "canary" else "hover")
        card = page.get_by_role("region", name="Verdict")
        expect(card).to_contain_text(BASES[kind])
        expect(card).not_to_contain_text("Not enough data")
        # The changed function leads; the page may name few others.
        first = page.locator(".culprits tbody tr").first
        expect(first).to_contain_text("step_7")
        assert any("step_7" in each["name"] for each in boxes(page))
        page.close()
        functions = ask(running.url, kind)["functions"]
        own = functions["self"]
        directions = dict(zip(functions["function"], own["direction"], strict=True))
        assert {name: way for name, way in directions.items() if way in CHANGES} == {"step_7": "increased"}
        assert functions["function"][0] == "step_7"
        assert own["q"][0] < 0.01
        # 0.90 of the rolling one: 0.897 or 0.903, by the second of the minute in which it all began.
        assert own["relative"][0] == pytest.approx(GROWTH[kind], abs=0.15)
        assert own["relative_low"][0] < GROWTH[kind] + 0.05
        assert own["relative_high"][0] > GROWTH[kind] - 0.05
        # The other way round there is an answer too: what grew shrinks again.
        swapped = ask(running.url, kind, baseline="v2", comparison="v1")["functions"]
        assert swapped["function"][0] == "step_7"
        assert swapped["self"]["direction"][0] == "decreased"
