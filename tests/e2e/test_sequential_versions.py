"""A version after another at twice the load: what was planted in it is found, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.sequential_versions import PLANTED_FUNCTION, REQUESTS, changed, compared, run_version
from tests.processes import Collector, collector

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector with the three versions, each of which ran alone until there were enough samples."""
    folder = tmp_path_factory.mktemp("sequential")
    with collector(folder, str(folder / "store")) as one:
        for version in REQUESTS:
            run_version(folder, one, version)
        yield one


def test_a_function_that_takes_half_more_is_found_at_twice_the_load_and_only_it(served: Collector) -> None:
    told = compared(served, "half_more")
    assert told["verdict"]["basis"] == "composition"
    assert told["verdict"]["direction"] == "not_judged"
    assert changed(told) == [PLANTED_FUNCTION]
    (price,) = (one for one in told["rows"] if one["function"] == PLANTED_FUNCTION)
    # Half more of 8 % of the time.
    assert price["self"]["relative_low"] < 0.45
    assert price["self"]["relative_high"] > 0.4
    assert told["verdict"]["culprits"]["rows"][0]["function"] == PLANTED_FUNCTION


def test_at_twice_the_load_an_equal_version_has_no_changed_function(served: Collector) -> None:
    told = compared(served, "equal")
    assert told["verdict"]["basis"] == "composition"
    assert changed(told) == []
    assert told["verdict"]["culprits"]["rows"] == []
