"""Hypothesis strategies and short notations for the stacks package."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from sidelight_model.counts import FURTHER_STATES, STATES, ZERO, Counts
from sidelight_model.folded import Stack, join_frames, parse_folded
from sidelight_model.frames import escape_frame
from sidelight_model.labels import Labels
from sidelight_model.profile import Profile
from sidelight_model.window import Quality, Window
from tests.model.reference_profiles import merge_windows

PERIOD_NS = 10_000_000
FEWER = settings(max_examples=30)
"""For laws of whole profiles and windows, which take long to draw."""
HOSTILE = [
    "a;b",
    "x\ny",
    "100%",
    "%3B",
    "%253B",
    "#head",
    "[idle]",
    "[gil]",
    "[cpu_wait]",
    "[gil_wait]",
    "[lock]",
    "[io]",
    "ünï",
    "名前",
    "\u2028",
    "a b",
    " 7",
    "\r",
]

texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
)
frames = st.one_of(st.sampled_from(["main", "handle", "query", "render"]), texts).map(escape_frame)
stacks = st.lists(frames, min_size=1, max_size=6).map(join_frames)
counts = st.builds(Counts, *[st.integers(0, 1000)] * len(STATES)).filter(lambda one: one != ZERO)
tables = st.dictionaries(stacks, counts, max_size=8)
ulids = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=25, max_size=25).map(lambda text: "0" + text)
words = st.sampled_from(["read", "lock", "gone"])
qualities = st.builds(
    Quality,
    attempts=st.integers(0, 10**6),
    errors=st.dictionaries(words, st.integers(1, 9)),
    mode=st.sampled_from(["gil", "blocking", "nonblocking", "command"]),
    sampler=st.just("py-spy 0.4.3"),
    missing_states=st.tuples(
        st.lists(st.sampled_from(["idle", "gil"]), unique=True),
        st.lists(st.sampled_from(FURTHER_STATES), unique=True).map(
            lambda states: sorted(states, key=FURTHER_STATES.index)
        ),
    ).map(lambda parts: (*parts[0], *parts[1])),
    target_cpu_ns=st.integers(0, 2**62),
    stops=st.integers(0, 10**6),
    stopped_ns=st.integers(0, 2**62),
    longest_stop_ns=st.integers(0, 2**62),
    other=st.integers(0, 10**6),
    reader=st.sampled_from(["", "own", "py-spy"]),
    reduced=st.lists(st.sampled_from(["cpu", "stops", "cgroup", "paused"]), unique=True).map(tuple),
)
label_values = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20)
label_sets = st.dictionaries(st.sampled_from(["version", "pod", "team"]), label_values).map(
    lambda pairs: Labels({"service": "shop", **pairs})
)
windows = st.builds(
    Window,
    id=ulids,
    labels=label_sets,
    start_ns=st.integers(0, 2**62),
    duration_ns=st.integers(1, 3600 * 10**9),
    period_ns=st.sampled_from([PERIOD_NS, 10_101_010]),
    counts=tables,
    quality=qualities,
)
profiles = st.lists(windows, max_size=3).map(merge_windows)


def profile(text: str, period_ns: int = PERIOD_NS) -> Profile:
    """A profile written as `main;handle 6 | main;render;[idle] 2`."""
    table = parse_folded("\n".join(line.strip() for line in text.split("|")))
    return Profile(table, {stack: count.times(period_ns) for stack, count in table.items()})


def deep(depth: int, leaf: str = "leaf") -> Stack:
    return join_frames(["recurse"] * (depth - 1) + [leaf])
