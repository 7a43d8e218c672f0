"""Real services under load, as the sidecar sees them: the short form of `make test-services`."""

from pathlib import Path

import pytest

from tests.services.judging import problems
from tests.services.stacks import SHORT
from tests.services.venvs import own
from tests.services.watching import watch


@pytest.mark.parametrize("name", SHORT)
def test_a_service_is_seen_as_it_is(name: str, tmp_path: Path) -> None:
    service = SHORT[name]
    seen = watch(service, own(), tmp_path, seconds=4)
    assert problems(service, seen) == [], seen
