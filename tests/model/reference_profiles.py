"""Profiles, trees and depths in plain Python, to check what the store and the collector compute."""

from __future__ import annotations

from collections.abc import Iterable

from sidelight_model.aggregate import DepthDistribution
from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack
from sidelight_model.profile import Profile
from sidelight_model.tree import StackRow, Tree, build_tree_from_rows, compute_totals
from sidelight_model.window import Window


def merge_windows(windows: Iterable[Window]) -> Profile:
    """Add up the profiles of windows."""
    samples: dict[Stack, Counts] = {}
    times: dict[Stack, Counts] = {}
    for window in windows:
        for stack, counts in window.counts.items():
            samples[stack] = samples.get(stack, ZERO).plus(counts)
            times[stack] = times.get(stack, ZERO).plus(counts.times(window.period_ns))
    return Profile(samples, times)


def build_profile_tree(*profiles: Profile, kind: ProfileType = ProfileType.WALL, lines: bool = False) -> Tree:
    """Build one call tree with the numbers of all profiles side by side."""
    return build_tree_from_rows([profile.rows(kind, lines=lines) for profile in profiles])


def count_depths(rows: Iterable[StackRow]) -> DepthDistribution:
    """Compute the depth distribution of a profile's samples."""
    counted: dict[int, int] = {}
    for frames, samples, _ in rows:
        counted[len(frames)] = counted.get(len(frames), 0) + samples
    return DepthDistribution(dict(sorted(counted.items())))


def render_outline(tree: Tree) -> str:
    """Render the tree as text: `frame  total/self` in samples, for each side."""
    columns = [(compute_totals(tree, side), tree.self_samples[side]) for side in range(tree.side_count)]
    lines = []
    for node, level in enumerate(tree.level):
        values = "  ".join(f"{total[node]}/{own[node]}" for total, own in columns)
        lines.append(f"{'  ' * level}{tree.names[tree.name_index[node]]}  {values}")
    return "\n".join(lines)
