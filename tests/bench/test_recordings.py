"""Recordings of real services keep every sample, in few bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.verdicts.real import build_grid
from bench.verdicts.recordings import RECORDED, Recording, load, names, recording_of, save
from bench.verdicts.weather import Weather
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window


def window(pod: str, start: int, text: str, thread: str = "main", clock_ms: int = 0) -> Window:
    return Window(
        id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        labels=Labels({"service": "shop", "pod": pod, "thread": thread}),
        start_ns=start * 10**9,
        duration_ns=2 * 10**9,
        period_ns=10**7,
        counts=parse_folded(text),
        quality=Quality(attempts=200, errors={"read": 20}, target_cpu_ns=clock_ms * 10**6, pid=7),
    )


@pytest.fixture
def recording() -> Recording:
    windows = [
        window("b", 12, "main (a.py:1);f (a.py:2);f (a.py:3) 4\nmain (a.py:9) 1\n", clock_ms=50),
        window("a", 10, "main (a.py:1);g (a.py:8) 3\nmain (a.py:1);[idle] 7\n"),
        window("b", 12, "run (t.py:1);g (a.py:8) 2\n", thread="other"),
    ]
    return recording_of(windows, {"a": {10: 4, 11: 2, 12: 50}, "b": {13: 6}})


@pytest.mark.parametrize("written", [False, True])
def test_functions_and_depths_of_windows_come_back(
    recording: Recording, tmp_path: Path, written: bool
) -> None:
    if written:
        save(recording, tmp_path / "one.npz")
        recording = load(str(tmp_path / "one.npz"))
    at = {name: number for number, name in enumerate(recording.functions)}
    assert recording.pods == ("a", "b")
    assert recording.start.tolist() == [0, 2]
    assert recording.watched == pytest.approx([1.8, 1.8])
    assert recording.clock == pytest.approx([0, 0.05])
    assert recording.requests.tolist() == [6, 6]
    assert recording.samples().tolist() == [3, 7]
    assert recording.samples("wall").tolist() == [10, 7]
    assert recording.seconds() == pytest.approx([0.03, 0.07])
    own, total = recording.self_samples(), recording.total_samples()
    assert own[:, at["f (a.py)"]].tolist() == [0, 4]
    assert total[:, at["f (a.py)"]].tolist() == [0, 4]  # once a stack, though it calls itself
    assert total[:, at["main (a.py)"]].tolist() == [3, 5]
    assert total[:, at["g (a.py)"]].tolist() == [3, 2]
    assert own.sum(1).tolist() == recording.samples().tolist()
    assert recording.depth_samples().tolist() == [[0, 0, 3, 0], [0, 1, 2, 4]]


def test_what_is_recorded_in_git_is_real_and_small() -> None:
    assert names() == ["feed", "shop"]
    assert sum(path.stat().st_size for path in RECORDED.rglob("*.npz")) <= 1_500_000
    for name in names():
        recording = load(name)
        assert len(recording.pods) >= 5
        assert recording.start.max() > 880
        own = recording.self_samples()
        assert own.sum(1).tolist() == recording.samples().tolist()
        assert (recording.total_samples() >= own).all()
        assert (np.diff(recording.start) >= 0).all()
        assert recording.parent[0] == -1
        assert (recording.parent < np.arange(len(recording.parent))).all()


def test_samples_count_by_the_time_they_stand_for(recording: Recording) -> None:
    usual, saving = (
        build_grid(replace(recording, period=np.full(len(recording.start), period)))
        for period in (0.01, 0.05)
    )
    assert usual.samples[0].sum() == recording.samples().sum()
    assert (saving.samples == 5 * usual.samples).all()


def test_load_is_the_same_for_the_same_seed_and_has_days() -> None:
    weather = Weather(rate=40, day_seconds=100, shares=(2, 1), kinds=("a", "b"), seed=3)
    asked = list(weather.requests(1000))
    assert asked == list(weather.requests(1000))
    assert asked == sorted(asked)
    times = np.array([at for at, _, _ in asked])
    assert len(times) == pytest.approx(40_000, rel=0.4)
    assert np.mean([pod == 0 for _, pod, _ in asked]) == pytest.approx(2 / 3, abs=0.1)
    night, evening = (times % 100 < 10).sum(), ((times % 100 > 60) & (times % 100 < 70)).sum()
    assert evening > 2 * night
