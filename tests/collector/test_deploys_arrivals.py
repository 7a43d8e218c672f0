"""Which arrivals there are does not depend on when anybody looks, and follows from what was seen alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.collector.deploys.appeared import Seen
from sidelight.collector.deploys.deploy import Span
from sidelight.collector.deploys.known import Known

GONE = 15
"""Minutes; so many are also looked through once more each time, as windows may come late."""
BEGIN, LAST = 60, 300

Minutes = Set[int]
"""In which a version was seen."""


def stretches(minutes: Minutes) -> Iterator[tuple[int, int]]:
    """From when until when, without a pause of GONE."""
    first = last = None
    for at in sorted(minutes):
        if first is None or last is None or at - last >= GONE:
            if first is not None and last is not None:
                yield first, last
            first = at
        last = at + 1
    if first is not None and last is not None:
        yield first, last


def seen(active: Mapping[str, Minutes], begin: int, until: int) -> list[Seen]:
    """What a collector sees that looks at this range."""
    found = [
        Seen("", "shop", version, Span(first * 60.0, last * 60.0))
        for version, minutes in active.items()
        for first, last in stretches({at for at in minutes if begin <= at < until})
    ]
    return sorted(found, key=lambda one: (one.span.first, one.version))


def added(parts: list[tuple[int, int]]) -> Minutes:
    return {at for start, length in parts for at in range(BEGIN + start, BEGIN + start + length)}


versions = st.fixed_dictionaries(
    {
        version: st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60)), max_size=4).map(added)
        for version in "123"
    }
)


@settings(max_examples=400, deadline=None)
@given(versions, st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_arrivals_are_the_same_however_often_one_looks(
    drawn: Mapping[str, Minutes], steps: list[int]
) -> None:
    """Of versions seen all the time while they run: who looks into a pause cannot tell how long it is."""
    active = {
        version: {at for first, last in stretches(minutes) for at in range(first, last)}
        for version, minutes in drawn.items()
    }
    whole = Known().learn(seen(active, 0, LAST), GONE * 60.0)
    known, parts, until = Known(), [], 0
    while until < LAST:
        at = until + steps[len(parts) % len(steps)]
        parts.append(known.learn(seen(active, max(0, until - GONE), at), GONE * 60.0))
        until = at
    named = [(one.version, one.previous, one.first_seen) for one in whole]
    assert [(one.version, one.previous, one.first_seen) for part in parts for one in part] == named


@settings(max_examples=400, deadline=None)
@given(versions)
def test_who_comes_back_was_gone_and_who_was_gone_comes_back(active: Mapping[str, Minutes]) -> None:
    arrived = Known().learn(seen(active, 0, LAST), GONE * 60.0)
    back = {(one.version, round(one.first_seen / 60)) for one in arrived if one.before}
    for version, minutes in active.items():
        ordered = sorted(minutes)
        for last, first in pairwise(ordered):
            others = [
                (max(begin, last + 1), min(end, first))
                for other, own in active.items()
                if other != version
                for begin, end in stretches(own)
            ]
            longest = max((end - begin for begin, end in others), default=0)
            together = len({at for begin, end in others for at in range(begin, end)})
            if (version, first) in back:
                assert together >= GONE
            if longest >= GONE:
                assert (version, first) in back
