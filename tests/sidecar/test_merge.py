"""Ledgers added up, and which windows may be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from sidelight_model.labels import Labels
from sidelight_model.window import Quality
from sidelight_sidecar.samplers.sampler import add_quality
from sidelight_sidecar.shipping.merge import can_merge, merge_windows, summarize_window
from tests.model.strategies import qualities
from tests.sidecar.windows import make_id, window


@given(qualities, qualities)
def test_stops_add_up_the_longest_stays_and_reasons_are_joined(one: Quality, other: Quality) -> None:
    both = add_quality(one, other)
    assert both.stops == one.stops + other.stops
    assert both.stopped_ns == one.stopped_ns + other.stopped_ns
    assert both.longest_stop_ns == max(one.longest_stop_ns, other.longest_stop_ns)
    assert both.other == one.other + other.other
    assert set(both.reduced) == {*one.reduced, *other.reduced}
    assert add_quality(other, one).reduced == both.reduced


def test_windows_of_two_kinds_of_thread_or_two_readers_are_never_added_up() -> None:
    first, second = window(0), window(1)
    assert can_merge([summarize_window(first)], summarize_window(second))
    other = replace(second, labels=Labels({**second.labels, "thread": "other"}))
    assert not can_merge([summarize_window(first)], summarize_window(other))
    read = replace(second, quality=replace(second.quality, reader="own"))
    assert not can_merge([summarize_window(first)], summarize_window(read))


def test_a_sum_of_windows_says_each_reason_once() -> None:
    some = [
        replace(window(at), quality=replace(window(at).quality, reduced=reasons, stops=5))
        for at, reasons in enumerate([("cpu",), (), ("cpu", "stops")])
    ]
    quality = merge_windows(some, make_id).quality
    assert (quality.reduced, quality.stops) == (("cpu", "stops"), 15)
