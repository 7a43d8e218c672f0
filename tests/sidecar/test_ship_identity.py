"""What a sidecar does when the collector finds that its token and its labels are of different pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from sidelight_model.errors import Reason
from tests.sidecar.fake_collector import FakeCollector, Reply
from tests.sidecar.test_ship import Shipping
from tests.sidecar.windows import window


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def shipping(tmp_path: Path, collector: FakeCollector, http: aiohttp.ClientSession) -> Shipping:
    return Shipping(tmp_path / "spool", collector.url, http)


@pytest.mark.parametrize("word", ["wrong_namespace", "wrong_pod", "wrong_service", "wrong_node"])
async def test_windows_that_are_not_its_own_are_refused_counted_and_named_until_some_are_taken(
    word: str, shipping: Shipping, collector: FakeCollector
) -> None:
    refusal = {"error": word, "message": "it says pod 'b'", "hint": "Leave SIDELIGHT_POD out."}
    collector.decide = lambda _: Reply(403, refusal)
    shipping.put(window(0), window(1))
    await shipping.emptied()
    assert shipping.count("refused_windows_total", reason=word) == 2
    problem = shipping.board.issues["labels"]
    assert (problem.reason, problem.message, problem.hint) == (Reason(word), *list(refusal.values())[1:])
    collector.decide = lambda _: None
    own = window(2)
    shipping.put(own)
    await shipping.emptied()
    assert collector.taken == [own]
    assert shipping.board.issues == {}


@pytest.mark.parametrize(
    ("status", "word", "shown"),
    [
        (403, "no_pod", "no_pod"),
        (401, "unauthorized", "unauthorized"),
        (503, "cluster_unavailable", "cluster_unavailable"),
        (503, "cluster_denied", "cluster_denied"),
        (503, "store_unavailable", "overloaded"),
        (403, "something_of_a_proxy", "unauthorized"),
    ],
)
async def test_windows_wait_for_a_better_token_or_a_cluster_that_answers(
    status: int, word: str, shown: str, shipping: Shipping, collector: FakeCollector
) -> None:
    collector.decide = lambda _: Reply(status, {"error": word, "message": "not now", "hint": "do this"})
    waiting = window(0)
    shipping.put(waiting)
    await shipping.until(lambda: "collector" in shipping.board.issues)
    problem = shipping.board.issues["collector"]
    assert (problem.reason, problem.hint) == (shown, "do this")
    assert "not now" in problem.message
    assert len(shipping.spool) == 1
    collector.decide = lambda _: None
    await shipping.emptied()
    assert collector.taken == [waiting]
    assert shipping.board.issues == {}
