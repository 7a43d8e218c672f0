"""Files that earlier versions wrote, which every later one must read. They are never written again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sidelight_collector.answers.export import ExportedProfile, export_folded
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.stack_hashing import hash_window
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.open_store import verify_store
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import Resolution, resolution_of
from sidelight_collector.storage.live_objects import list_live_objects
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.pins import read_pins
from sidelight_collector.storage.segments import build_segment_ref, event_day, list_segments, read_segment
from sidelight_collector.storage.tables import DAY_NS, SCHEMAS, SEGMENT_PARTS
from sidelight_model.counts import FURTHER_STATES, STATES, Counts, ProfileType
from sidelight_model.window import decode_windows, encode_windows
from tests.collector.stored_windows import asked, question, stored

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"


def test_windows_of_format_1_are_read() -> None:
    body = (GOLDEN / "window-1.folded").read_bytes()
    shop, ads = decode_windows(body)
    assert dict(shop.labels) == {"pod": "shop-1", "service": "shop", "version": "2026.11", "zone": "a b"}
    assert (shop.start_ns, shop.duration_ns, shop.period_ns) == (1_795_254_000 * 10**9, 10**10, 10**7)
    assert shop.total == Counts(idle=954, running=16, gil=30)
    assert (shop.quality.sampler, shop.quality.errors, shop.quality.pid) == ("py-spy 0.4.3", {"torn": 2}, 7)
    assert (ads.total, ads.quality.missing_states) == (
        Counts(running=5),
        ("idle", "gil", *FURTHER_STATES),
    )
    assert encode_windows([shop, ads]) == body


def test_windows_of_format_1_say_how_long_they_held_the_process_up() -> None:
    body = (GOLDEN / "window-1-stops.folded").read_bytes()
    main, other, bare = decode_windows(body)
    assert [one.labels.get("thread") for one in (main, other, bare)] == ["main", "other", None]
    quality = main.quality
    assert (quality.stops, quality.stopped_ns, quality.longest_stop_ns) == (540, 37_800_000, 210_000)
    assert (quality.mode, quality.reader, quality.reduced) == ("gil", "own", ("cgroup", "cpu"))
    assert (other.quality.attempts, other.quality.stops, other.quality.other) == (1000, 0, 3)
    assert encode_windows([main, other, bare]) == body


@pytest.mark.parametrize("name", ["1", "1-stops"])
def test_a_store_of_format_1_is_read(name: str, tmp_path: Path) -> None:
    store = DirectoryStore(Path(shutil.copytree(GOLDEN / f"store-{name}", tmp_path / "store")))
    sent = decode_windows((GOLDEN / f"window-{name}.folded").read_bytes())
    windows = [hash_window(window) for window in sent]
    assert verify_store(store).format == 1
    (ref,) = list_segments(store, 0, 2**63 - 1)
    assert ref == build_segment_ref(windows)
    for part in SEGMENT_PARTS:
        assert read_segment(store, ref, part).schema.equals(SCHEMAS[part])
    profiles = {row["wid"]: row for row in read_segment(store, ref, "profiles").to_pylist()}
    stacks = {row["h"]: ";".join(row["frames"]) for row in read_segment(store, ref, "stacks").to_pylist()}
    found = {
        (row["wid"], stacks[row["h"]]): Counts(*(row[state] for state in STATES))
        for row in read_segment(store, ref, "samples").to_pylist()
    }
    assert found == {(one.id, stack): count for one in sent for stack, count in one.counts.items()}
    for row in windows:
        stored, quality = profiles[row.window.id], row.window.quality
        assert stored["digest"] == row.digest
        for field in ("sampler", "stops", "stopped_ns", "longest_stop_ns", "other", "reader"):
            assert stored[field] == getattr(quality, field)
        assert tuple(stored["reduced"]) == quality.reduced
        assert tuple(stored["missing_states"]) == quality.missing_states
        assert stored["thread"] == row.window.labels.get("thread", "")


def test_a_store_of_format_1_with_blocks_is_read(tmp_path: Path) -> None:
    store = DirectoryStore(Path(shutil.copytree(GOLDEN / "store-1-blocks", tmp_path / "store")))
    windows = decode_windows((GOLDEN / "window-1-blocks.folded").read_bytes())
    assert verify_store(store).format == 1
    known = manifest.read(store, event_day(windows[0].start_ns)).document
    (block,) = known.blocks
    assert (block.services, block.windows, block.rows) == (("ads", "shop"), 12, 24)
    assert set(block.parts) == {*SEGMENT_PARTS, "sums"}
    for part in block.parts:
        assert read_segment(store, block.ref, part).schema.equals(SCHEMAS[part])
    # Two segments that the block took the place of are still there; one came later.
    segments = list_segments(store, 0, 2**63 - 1)
    assert {ref.key_prefix for ref in segments} > known.tombstones
    assert list_live_objects(store, 0, 2**63 - 1).refs == [block.ref, segments[-1]]
    assert (len(segments), len(known.tombstones)) == (3, 2)
    everything = question("", end=10**6)
    for kind in ProfileType:
        profile = folded_profile(store, everything, kind)
        assert profile == folded_profile(stored(windows), everything, kind)
        assert profile.basis["windows"] == len(windows)


def test_a_store_of_format_1_with_every_level_is_read(tmp_path: Path) -> None:
    store = DirectoryStore(Path(shutil.copytree(GOLDEN / "store-1-levels", tmp_path / "store")))
    windows = decode_windows((GOLDEN / "window-1-levels.folded").read_bytes())
    assert verify_store(store).format == 1
    days = manifest.list_days(store)
    blocks = [block for day in days for block in manifest.read(store, day).document.blocks]
    assert [resolution_of(block) for block in blocks] == [Resolution.DAY, Resolution.HOUR, Resolution.WINDOW]
    for block in blocks:
        for part in block.parts:
            assert read_segment(store, block.ref, part).schema.equals(SCHEMAS[part])
            assert len(store.get(block.ref.key(part))) == block.parts[part]
    everything = question("", start=-(10**6), end=10**6)
    for kind in ProfileType:
        profile = folded_profile(store, everything, kind)
        plain = folded_profile(stored(windows), everything, kind)
        assert profile.content == plain.content
        assert profile.basis["windows"] == len(windows)
        found = [one["resolution"] for one in profile.basis["resolutions"]]
        assert found == ["window", "hour", "day"]
    (pin,) = read_pins(store)
    assert (pin.name, pin.service, pin.reason) == ("incident-42", "shop", "INC-42")


def test_a_store_with_samples_that_wait_for_a_cpu_is_read(tmp_path: Path) -> None:
    store = DirectoryStore(Path(shutil.copytree(GOLDEN / "store-1-cpu-wait", tmp_path / "store")))
    body = (GOLDEN / "window-2.folded").read_bytes()
    windows = decode_windows(body)
    assert encode_windows(windows) == body
    assert sum(window.total.cpu_wait for window in windows) == 1040
    everything = question("", end=10**6)
    for kind in ProfileType:
        assert folded_profile(store, everything, kind) == folded_profile(stored(windows), everything, kind)


@pytest.mark.parametrize("name", ["1", "1-blocks", "1-levels", "1-cpu-wait"])
def test_files_without_a_state_have_no_samples_in_it_and_say_so(name: str, tmp_path: Path) -> None:
    absent = FURTHER_STATES[1:] if name == "1-cpu-wait" else FURTHER_STATES
    store = DirectoryStore(Path(shutil.copytree(GOLDEN / f"store-{name}", tmp_path / "store")))
    for ref in list_live_objects(store, 0, 2**63 - 1).refs:
        for part in ref.parts:
            table = read_segment(store, ref, part)
            for state in set(absent) & set(table.column_names):
                assert not any(table[state].to_pylist())
            if "missing_states" in table.column_names:
                assert all({*absent} <= {*states} for states in table["missing_states"].to_pylist())


def test_windows_of_both_formats_are_merged_into_one_block(tmp_path: Path) -> None:
    """The old ones keep saying that they lack the state: in blocks, by the hour and by the day."""
    store = DirectoryStore(Path(shutil.copytree(GOLDEN / "store-1", tmp_path / "store")))
    old = decode_windows((GOLDEN / "window-1.folded").read_bytes())
    new = decode_windows((GOLDEN / "window-2.folded").read_bytes())
    stored(new, store=store)
    policy = CompactionPolicy(min_segments=2, deletion_delay_seconds=1e9)
    later = (old[0].start_ns + 2 * DAY_NS) / 10**9
    Compaction(store, Metrics(), policy, interval_seconds=1, clock=lambda: later).run_once()
    (block,) = manifest.read(store, event_day(old[0].start_ns)).document.blocks
    assert block.windows == len(old) + len(new)
    lacking = {True: Counts(), False: Counts()}
    for row in read_segment(store, block.ref, "hours").to_pylist():
        key = "cpu_wait" in row["missing_states"]
        lacking[key] = lacking[key].plus(Counts(*(row[state] for state in STATES)))
    tells = [window for window in new if "cpu_wait" not in window.quality.missing_states]
    silent = [window for window in (*old, *new) if window not in tells]
    for key, windows in ((True, silent), (False, tells)):
        total = Counts()
        for window in windows:
            total = total.plus(window.total)
        assert lacking[key] == total
    everything = question("", end=10**6)
    for kind in ProfileType:
        profile = folded_profile(store, everything, kind)
        assert profile.content == folded_profile(stored(old, new), everything, kind).content


def folded_profile(store: ObjectStore, asked_for: WindowQuery, kind: ProfileType) -> ExportedProfile:
    return asked(store, lambda reading: export_folded(reading, [asked_for], kind, lines=True, states=True))
