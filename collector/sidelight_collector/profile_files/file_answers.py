"""The flame graph of a profile file, and the comparison of two.

The answers have the form of `/api/v1/flamegraph` and `/api/v1/compare`. A verdict on files compares by
composition, as `sidelight compare` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sidelight_collector.profile_files.file_tree import StackTime, build_file_tree
from sidelight_collector.profile_files.sent_file import ProfileFile
from sidelight_model.counts import OFF_CPU_STATES, STATES, STATES_BY_TYPE, THREAD_STATES, ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.frames import OTHER, Frame, unescape_frame
from sidelight_model.recordings.imported_profile import ImportedProfile, parse_profile
from sidelight_model.recordings.inputs.speedscope_input import ProfileTypeMismatch
from sidelight_model.recordings.local_comparison import compare_recordings
from sidelight_model.recordings.recording_culprits import flag_changed_nodes
from sidelight_model.recordings.recording_file import parse_recording_file
from sidelight_model.recordings.recording_pair import RecordingPair
from sidelight_model.recordings.sample_counts import FunctionKey, SampleCounts, count_samples
from sidelight_model.recordings.sampling_noise import SignificanceLevel
from sidelight_model.tree import StackRow, Tree, build_tree_from_rows, prune_with_mapping

RATE_HZ: Final = 100.0
"""The sampling rate of files that state none."""
_ALPHA: Final = 0.05
_MIN_EFFECT: Final = 0.05
_FILE_METHOD: Final = ("between_runs", "noise")
_RUNNING: Final = "running"
_NO_EFFECT: Final = dict.fromkeys(
    ("low", "high", "relative", "relative_low", "relative_high", "min_detectable_effect")
)


def build_file_answer(
    files: Sequence[ProfileFile], kind: ProfileType | None, *, lines: bool, max_nodes: int
) -> dict[str, Any]:
    """Build the answer on one file, or on two with their verdict.

    `kind` is the profile type; without one, the files decide. `lines` is for one file alone. Raises
    SidelightError (`bad_folded`).
    """
    profiles = [parse_profile(file.name, file.content, RATE_HZ) for file in files]
    kind = kind or _choose_type(profiles)
    if len(files) == 1:
        changes: dict[str, Any] = {}
        tree, folded = build_file_tree(_iter_stacks(profiles[0], kind), lines=lines, max_nodes=max_nodes)
    else:
        pair, verdict = _compare_files(files, kind)
        whole = build_tree_from_rows(
            [
                _iter_counted_rows(side, profile, kind)
                for side, profile in zip((pair.baseline, pair.comparison), profiles, strict=True)
            ]
        )
        flags = flag_changed_nodes(pair, whole, pair.find_common_shift())
        tree, folded, new_index = prune_with_mapping(whole, max_nodes)
        changed = [0] * len(tree)
        for node, flag in zip(new_index, flags, strict=True):
            if tree.names[tree.name_index[node]] != OTHER:
                changed[node] = max(changed[node], flag)
        changes = {"verdict": verdict, "changed": changed}
    sides = [
        _build_side(file, profile, kind, tree, at)
        for at, (file, profile) in enumerate(zip(files, profiles, strict=True))
    ]
    return {
        "type": kind.value,
        "lines": lines and len(files) == 1,
        "names": [unescape_frame(name) for name in tree.names],
        "level": tree.level,
        "name": tree.name_index,
        "sides": sides,
        "pruned": {"nodes": folded, "limit": max_nodes if folded else None},
        "basis": {
            "windows": len(files),
            "pods": len(files),
            "samples": sum(side["samples"] for side in sides),
            "unreadable_segments": 0,
            "unresolved_windows": 0,
            "resolutions": [],
        },
        "files": [
            {"name": file.name, "format": profile.format.value, "damaged_parts": profile.damaged_parts}
            for file, profile in zip(files, profiles, strict=True)
        ],
        **changes,
    }


def _choose_type(profiles: Sequence[ImportedProfile]) -> ProfileType:
    """Return wall time for files that tell waiting threads apart, else CPU time."""
    states = {state for profile in profiles for _, state in profile.times}
    return ProfileType.CPU if states.isdisjoint(OFF_CPU_STATES) else ProfileType.WALL


def _iter_stacks(profile: ImportedProfile, kind: ProfileType) -> Iterator[StackTime]:
    for (stack, state), ns in profile.times.items():
        if (state or _RUNNING) in STATES_BY_TYPE[kind]:
            yield stack, max(round(ns / profile.period_ns), 1), round(ns / 1000)


def _iter_counted_rows(side: SampleCounts, profile: ImportedProfile, kind: ProfileType) -> Iterator[StackRow]:
    """Yield the stacks to compare; each sample takes an equal part of the time (us)."""
    time_us = sum(
        ns for (_, state), ns in profile.times.items() if (state or _RUNNING) in STATES_BY_TYPE[kind]
    )
    sample_us = time_us / 1000 / max(side.samples, 1)
    texts: dict[FunctionKey, str] = {}
    for functions, samples in side.stacks:
        for function in functions:
            if function not in texts:
                texts[function] = Frame(*function).text
        yield [texts[function] for function in functions], samples, round(samples * sample_us)


def _build_side(
    file: ProfileFile, profile: ImportedProfile, kind: ProfileType, tree: Tree, at: int
) -> dict[str, Any]:
    states = dict.fromkeys(STATES, 0)
    for (_, state), ns in profile.times.items():
        states[state or _RUNNING] += max(round(ns / profile.period_ns), 1)
    off_cpu, threads = (sum(states[state] for state in group) for group in (OFF_CPU_STATES, THREAD_STATES))
    seconds = sum(tree.self_ns[at]) / 1e6
    start = profile.start_ns / 1e9
    duration = (profile.duration_ns or profile.total_ns) / 1e9
    return {
        "selector": file.name,
        "from": start,
        "until": start + duration,
        "windows": 1,
        "pods": 1,
        "samples": sum(tree.self_samples[at]),
        "seconds": seconds,
        "pod_seconds": duration,
        "states": states,
        "idle_share": off_cpu / threads if threads and kind is ProfileType.WALL else None,
        "target_cpu_seconds": 0.0,
        "truncated_samples": 0,
        "modes": [],
        "samplers": [profile.format.value],
        "python_versions": [],
        "missing_states": [],
        "sampling_periods_us": [profile.period_ns / 1000],
        "quality": {
            "readers": [],
            "coverage": None,
            "failed_share": None,
            "errors": {},
            "stops": 0,
            "stopped_seconds": 0.0,
            "stopped_share": None,
            "longest_stop_seconds": 0.0,
            "other_samples": 0,
            "preempted_seconds": 0.0,
            "reduced": [],
        },
        "self_samples": tree.self_samples[at],
        "self_us": tree.self_ns[at],
    }


def _compare_files(files: Sequence[ProfileFile], kind: ProfileType) -> tuple[RecordingPair, dict[str, Any]]:
    try:
        recordings = [parse_recording_file(file.name, file.content, kind, None) for file in files]
    except ProfileTypeMismatch as error:
        # The hint of the command names an option.
        raise SidelightError(
            error.message, reason=Reason.BAD_FOLDED, hint="Compare files of one profile type."
        ) from error
    baseline, comparison = (
        count_samples(file.name, recording.stacks, kind)
        for file, recording in zip(files, recordings, strict=True)
    )
    pair = RecordingPair(baseline, comparison, kind, None, SignificanceLevel(_ALPHA, 0, _MIN_EFFECT))
    verdict: dict[str, Any] = compare_recordings(pair, (), recordings=recordings)["verdict"]
    total = {
        "baseline": 1.0 if baseline.samples else 0.0,
        "comparison": 1.0 if comparison.samples else 0.0,
        "delta": 0.0,
        **_NO_EFFECT,
        "p": 1.0,
        "direction": verdict["direction"],
    }
    verdict["rate"] = verdict["sampling_only"] = total
    if verdict["depth"]:
        verdict["depth"]["gap"] = {"depth": 0, "gap": 0.0, "low": 0.0, "high": 0.0}
    # A file is one pod.
    for row in verdict["culprits"]["rows"]:
        row |= {"pods_agreeing": 1, "pods_total": 1}
    for columns in (verdict["functions"]["self"], verdict["functions"]["total"]):
        ones = [1] * len(verdict["functions"]["function"])
        columns |= {"pods_agreeing": ones, "pods_total": ones}
        columns["q"] = [1.0 if q is None else q for q in columns.get("q", ())]
    verdict["method"] = {
        **{name: value for name, value in verdict["method"].items() if name not in _FILE_METHOD},
        "pods": [1, 1],
        "pod_groups": [1, 1],
        "time_blocks": [1, 1],
        "frequencies": 1,
        "paired": "",
        "same_pods": False,
        "over_dispersion": [None, None],
        "rate_source": "samples",
    }
    return pair, verdict
