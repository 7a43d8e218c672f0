"""Endpoints in the stacks of real services that run now, on what the development dependencies carry."""

from pathlib import Path

import pytest

from sidelight_model.endpoints.endpoint_search import find_endpoint
from sidelight_model.folded import split_stack
from tests.services.endpoints.recording import record
from tests.services.endpoints.shops import SHOPS
from tests.services.endpoints.truth import find_handler
from tests.services.venvs import own

# Coroutines of both kinds and plain methods; the others are long.
IN_EVERY_RUN = "tornado"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == IN_EVERY_RUN else pytest.mark.long)
        for name in ("tornado", "aiohttp", "bottle-gevent")
    ],
)
def test_each_stack_of_a_running_service_has_its_handler_as_endpoint(name: str, tmp_path: Path) -> None:
    shop = SHOPS[name]
    handlers = set()
    for stack in record(shop, own(), tmp_path, seconds=2):
        frames = split_stack(stack)
        handler, endpoint = find_handler(frames, shop), find_endpoint(frames)
        assert endpoint is None or endpoint.name in (handler, *shop.helpers), stack
        assert handler is None or endpoint is not None, stack
        handlers.add(handler)
    assert handlers - {None} == set(shop.endpoints)
