from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_model.errors import Reason
from sidelight_model.window import Quality, Window, decode_windows
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.samplers.sampler import SampleBatch
from sidelight_sidecar.shipping import atomic_file
from sidelight_sidecar.shipping.merge import merge_windows
from sidelight_sidecar.shipping.spool import Spool, SpoolUnwritable
from sidelight_sidecar.windows.preroll import Preroll
from sidelight_sidecar.windows.window_builder import TargetLabels, WindowContext
from sidelight_sidecar.windows.window_writer import WindowWriter
from tests.sidecar.windows import SECOND, make_id, window

ROOM = 400_000


class Opened:
    """A spool on a folder, opened again as often as a test likes."""

    def __init__(self, folder: Path, max_bytes: int = ROOM) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.metrics = SidecarMetrics()
        self.spool = Spool(folder, max_bytes, self.metrics, make_id)

    def restart(self) -> None:
        self.spool.close()
        self.spool = Spool(self.folder, self.max_bytes, self.metrics, make_id)

    def windows(self) -> list[Window]:
        found = []
        for entry in self.spool.list_oldest(10**6):
            body = self.spool.read(entry)
            assert body is not None
            found += decode_windows(body)
        return found

    def samples(self) -> int:
        return sum(one.total.wall for one in self.windows())

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"sidelight_sidecar_{name}", labels) or 0.0

    def bytes_on_disk(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    one = Opened(tmp_path / "spool")
    yield one
    one.spool.close()


def busy(number: int, *, pod: str = "a", stacks: int = 100) -> Window:
    """A window that does not compress well."""
    luck = random.Random(f"{number} {pod}")
    folded = "".join(f"main;{luck.randbytes(20).hex()};x {luck.randint(1, 9)}\n" for _ in range(stacks))
    return window(number, folded, pod=pod)


def test_windows_come_back_as_they_were_put_the_oldest_first(opened: Opened) -> None:
    windows = [window(number, f"main;work {number}\n") for number in (3, 1, 2)]
    for one in windows:
        assert opened.spool.put(one)
    assert opened.windows() == [windows[1], windows[2], windows[0]]


def test_a_restart_resumes_the_spool(opened: Opened) -> None:
    one, two = window(1), window(2)
    opened.spool.put(one)
    opened.spool.put(two)
    opened.spool.delete([one.id])
    opened.restart()
    assert opened.windows() == [two]


def test_a_full_spool_adds_up_its_oldest_windows_and_keeps_every_sample(opened: Opened) -> None:
    same = "".join(f"main;{'x' * 50}{n};{random.Random(n).randbytes(20).hex()} 1\n" for n in range(200))
    for number in range(70):
        opened.spool.put(window(number, same))
    kept = opened.windows()
    assert opened.count("spool_merged_windows_total") > 0
    assert opened.count("spool_dropped_samples_total") == 0
    assert sum(one.total.wall for one in kept) == 70 * 200
    assert sum(one.quality.attempts for one in kept) == 70 * 200
    assert sum(one.duration_ns for one in kept) == 700 * SECOND
    assert kept[0].start_ns == window(0).start_ns
    assert kept[0].duration_ns > kept[-1].duration_ns


def test_the_oldest_is_dropped_and_counted_when_nothing_may_be_added_up(opened: Opened) -> None:
    total = 0
    for number in range(150):
        one = busy(number, pod=f"pod-{number}")
        total += one.total.wall
        opened.spool.put(one)
    assert opened.count("spool_merged_windows_total") == 0
    dropped = opened.count("spool_dropped_windows_total", reason="full")
    assert dropped > 0
    assert opened.windows()[0].labels["pod"] == f"pod-{int(dropped)}"
    assert opened.samples() + opened.count("spool_dropped_samples_total") == total


def test_a_window_larger_than_the_spool_is_lost_and_counted_and_nothing_else_is(opened: Opened) -> None:
    opened.spool.put(window(0))
    assert not opened.spool.put(busy(1, stacks=20_000))
    assert opened.count("spool_dropped_windows_total", reason="too_large") == 1
    assert opened.samples() == window(0).total.wall


def test_windows_that_may_have_been_stored_are_never_added_up(opened: Opened) -> None:
    first = [busy(number) for number in range(20)]
    for one in first:
        opened.spool.put(one)
    opened.spool.mark_sent(opened.spool.list_oldest(20), was_sent=True)
    opened.restart()
    for number in range(20, 120):
        opened.spool.put(busy(number))
    kept = {one.id for one in opened.windows()}
    dropped = opened.count("spool_dropped_windows_total", reason="full")
    assert len(kept & {one.id for one in first}) == max(0, 20 - dropped)
    assert opened.count("spool_merged_windows_total") > 0


def test_windows_further_apart_than_an_hour_are_not_added_up(tmp_path: Path) -> None:
    one = Opened(tmp_path)
    for number in range(150):
        one.spool.put(busy(number * 100))
    for kept in one.windows():
        assert kept.duration_ns <= 3600 * SECOND
    one.spool.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", atomic_file.compress_window(window(7))[:-3], atomic_file.compress_window(window(8))],
)
def test_a_corrupt_file_is_set_aside_and_counted_and_nothing_else_is_lost(
    opened: Opened, content: bytes
) -> None:
    good = [window(0), window(9)]
    for one in good:
        opened.spool.put(one)
    bad = opened.folder / f"{window(5).id}.zst"
    bad.write_bytes(content)
    opened.restart()
    entries = opened.spool.list_oldest(10)
    bodies = [body for entry in entries if (body := opened.spool.read(entry)) is not None]
    assert [one for body in bodies for one in decode_windows(body)] == good
    assert opened.count("spool_corrupt_files_total") == 1
    assert (opened.folder / "corrupt" / bad.name).read_bytes() == content
    assert len(opened.spool) == 2


def test_a_file_that_is_no_window_by_its_name_is_set_aside_at_start(opened: Opened) -> None:
    (opened.folder / "notes.zst").write_bytes(b"?")
    (opened.folder / "half.zst.tmp").write_bytes(b"?")
    opened.restart()
    assert opened.count("spool_corrupt_files_total") == 1
    assert not (opened.folder / "half.zst.tmp").exists()


STEPS = ["sum written", "note written", "sum in place", "some sources gone", "all gone"]


@pytest.mark.parametrize("reached", STEPS)
def test_a_merge_survives_a_crash_at_any_point(opened: Opened, reached: str) -> None:
    windows = [window(number) for number in range(4)]
    for one in windows:
        opened.spool.put(one)
    opened.spool.close()
    total = merge_windows(windows[:3], make_id)
    sources = [f"{one.id}.zst" for one in windows[:3]]
    done = STEPS.index(reached)
    beside = atomic_file.write_temporary_file(
        opened.folder / f"{total.id}.zst", atomic_file.compress_window(total)
    )
    if done >= 1:
        atomic_file.write_file(opened.folder / f"{total.id}.merge", json.dumps(sources).encode())
    if done >= 2:
        beside.rename(opened.folder / f"{total.id}.zst")
    for name in sources[: {3: 1, 4: 3}.get(done, 0)]:
        (opened.folder / name).unlink()
    opened.restart()
    assert opened.samples() == 12
    assert len(opened.spool) == (2 if done >= 2 else 4)
    assert not list(opened.folder.glob("*.merge")) + list(opened.folder.glob("*.tmp"))


def test_a_refused_window_is_kept_with_the_reason_within_a_bound(opened: Opened) -> None:
    for number in range(100):
        opened.spool.put(busy(number))
        (entry,) = opened.spool.list_oldest(1)
        opened.spool.quarantine_refused(entry, "bad_label", "the label x is not allowed")
    refused = opened.folder / "refused"
    kept = sorted(refused.glob("*.zst"))
    assert 0 < len(kept) < 100
    assert kept[-1].name == f"{busy(99).id[:10]}{kept[-1].name[10:]}"
    reason = json.loads((refused / f"{kept[-1].name}.reason.json").read_text())
    assert reason == {"error": "bad_label", "message": "the label x is not allowed"}
    assert opened.bytes_on_disk() <= ROOM


def test_two_sidecars_cannot_share_a_spool(opened: Opened) -> None:
    with pytest.raises(SpoolUnwritable, match="another sidecar") as refused:
        Opened(opened.folder)
    assert refused.value.hint


def test_a_spool_that_cannot_be_written_is_refused_at_start() -> None:
    with pytest.raises(SpoolUnwritable) as refused:
        Spool(Path("/dev/null/spool"), ROOM, SidecarMetrics(), make_id)
    assert refused.value.reason is Reason.SPOOL_UNWRITABLE


puts = st.tuples(st.just("put"), st.sampled_from(["a", "b"]), st.integers(1, 500))
others = st.tuples(st.sampled_from(["send", "ack", "restart", "corrupt"]))
steps = st.lists(
    st.one_of(puts, puts, puts, st.tuples(st.sampled_from(["send", "ack", "restart", "corrupt"]))),
    max_size=40,
)


@settings(max_examples=25)
@given(steps)
def test_the_spool_never_exceeds_its_bound_and_loses_no_sample_uncounted(
    steps: list[tuple[str, str, int] | tuple[str]],
) -> None:
    folder = Path(tempfile.mkdtemp())
    opened = Opened(folder, max_bytes=160_000)
    put = acknowledged = spoiled = 0
    try:
        for number, step in enumerate(steps):
            entries = opened.spool.list_oldest(3)
            if len(step) == 3:
                one = busy(number, pod=step[1], stacks=step[2])
                put += one.total.wall
                opened.spool.put(one)
            elif step[0] == "send":
                opened.spool.mark_sent(entries, was_sent=True)
            elif step[0] == "ack" and entries:
                body = opened.spool.read(entries[0])
                acknowledged += decode_windows(body or b"")[0].total.wall
                opened.spool.delete([entries[0].id])
            elif step[0] == "corrupt" and entries:
                body = opened.spool.read(entries[0])
                spoiled += decode_windows(body or b"")[0].total.wall
                (folder / opened.spool.list_oldest(1)[0].name).write_bytes(b"spoiled")
                assert opened.spool.read(entries[0]) is None
            elif step[0] == "restart":
                opened.restart()
            assert opened.bytes_on_disk() <= 160_000
        kept = opened.samples()
        assert put == kept + acknowledged + spoiled + opened.count("spool_dropped_samples_total")
        assert opened.spool.size == sum(file.stat().st_size for file in folder.glob("*.zst"))
    finally:
        opened.spool.close()
        shutil.rmtree(folder)


async def test_windows_that_cannot_be_written_are_counted_and_reported_until_they_can(opened: Opened) -> None:
    board = HealthBoard()
    intake = WindowWriter(opened.spool, Preroll(0, 1), opened.metrics, board, make_id, lambda: None)
    sampled = SampleBatch(
        {"main": window(0).counts}, window(0).start_ns, SECOND, Quality(samples=3, attempts=3)
    )
    source, taking = TargetLabels(window(0).labels, "main", 7), WindowContext(100, 1.0)
    opened.folder.rename(opened.folder.with_name("away"))
    opened.folder.touch()
    assert not await intake.write(sampled, source, taking)
    assert board.issues["spool"].reason is Reason.SPOOL_UNWRITABLE
    assert opened.count("spool_dropped_windows_total", reason="unwritable") == 1
    assert opened.count("spool_dropped_samples_total") == 3
    opened.folder.unlink()
    opened.folder.with_name("away").rename(opened.folder)
    assert await intake.write(sampled, source, taking)
    assert board.issues == {}


def test_a_folder_that_was_removed_is_made_again_and_what_waited_in_it_is_counted(opened: Opened) -> None:
    opened.spool.put(window(0))
    opened.spool.put(window(1))
    shutil.rmtree(opened.folder)
    later = window(2)
    assert opened.spool.put(later)
    assert opened.windows() == [later]
    assert opened.count("spool_dropped_windows_total", reason="missing") == 2
    assert opened.count("spool_dropped_samples_total") == 6
    with pytest.raises(SpoolUnwritable, match="another sidecar"):
        Spool(opened.folder, ROOM, SidecarMetrics(), make_id)


def test_a_full_spool_drops_the_oldest_where_the_disk_has_no_room_for_a_sum(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = atomic_file.write_temporary_file

    def no_room_for_notes(path: Path, content: bytes) -> Path:
        if path.suffix == ".merge":
            raise OSError(28, "No space left on device")
        return prepare(path, content)

    monkeypatch.setattr(atomic_file, "write_temporary_file", no_room_for_notes)
    number = put = 0
    while not opened.count("spool_dropped_windows_total", reason="full"):
        one = busy(number, stacks=300)
        assert opened.spool.put(one)
        number, put = number + 1, put + one.total.wall
    assert opened.samples() + opened.count("spool_dropped_samples_total") == put
    assert not list(opened.folder.glob("*.tmp"))
