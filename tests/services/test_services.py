"""Real services under load, as the sidecar sees them: the short form of `make test-services`."""

from pathlib import Path

import pytest

from tests.services.expectations import problems
from tests.services.sampled_service import watch
from tests.services.stacks import SHORT
from tests.services.venvs import own

# A loop with threads, greenlets in workers, and workers that a program forks; the others are long.
IN_EVERY_RUN = ("aiohttp, uvloop", "bottle, gunicorn gevent", "a loop around os.fork")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in IN_EVERY_RUN else pytest.mark.long) for name in SHORT]
)
def test_a_service_is_seen_as_it_is(name: str, tmp_path: Path) -> None:
    service = SHORT[name]
    seen = watch(service, own(), tmp_path, seconds=4)
    assert problems(service, seen) == [], seen
