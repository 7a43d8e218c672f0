"""`sidelight doctor` as a person or a job runs it, and docs/doctor.md, which is complete."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sidelight.main import run
from sidelight.settings import BadSetting
from sidelight_collector.doctor.command import ProgressLine
from sidelight_collector.doctor.doctor_report import MAX_SHOWN, render_json, render_text
from sidelight_collector.doctor.findings import FindingKind
from sidelight_collector.doctor.settings import DoctorSettings
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.s3 import S3Store
from tests import processes
from tests.collector.damage import DAMAGE, KEY, block, examined, whole
from tests.collector.stored_windows import stored, window
from tests.processes import S3Server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
GOLDEN = Path(__file__).parents[1] / "golden" / "formats"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A whole store in a directory."""
    whole(DirectoryStore(tmp_path / "store"))
    return tmp_path / "store"


def test_a_store_that_others_may_change_is_a_warning_with_what_to_do(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.chmod(0o777)
    assert run(["doctor", "--store", str(place)]) == 1
    out = capsys.readouterr().out
    assert f"other users may write to {place} (mode 0777)" in out
    assert "chmod go-w" in out


def test_a_whole_store_is_told_in_one_line_and_what_services_cost(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--store", str(place)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = r"1 day, 1 block, 1 segment, 11 objects, \d\.\d MB: 0 errors, 0 warnings, \d notes?"
    assert re.fullmatch(rf"{re.escape(str(place))}: {told}", out.splitlines()[-1])
    assert re.search(r"^shop +197 ", out, re.MULTILINE)


def test_damage_is_told_with_what_to_do_and_repaired_when_asked(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DirectoryStore(place)
    key = block(store).ref.key("sums")
    store.delete(key)
    assert run(["doctor", "--store", str(place)]) == 1
    first, second, third = capsys.readouterr().out.splitlines()[:3]
    assert first == f"error  object_missing  {key}"
    assert "lost this table" in second
    assert third.startswith("    -> Run it with --repair")
    old = block(store).ref.key_prefix
    assert run(["doctor", "--store", str(place), "--repair"]) == 0
    assert capsys.readouterr().out.startswith(f"repaired  {old}: made a new block of its windows")


def test_json_is_one_document_of_the_documented_shape(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGE[FindingKind.MANIFEST_DAMAGED](DirectoryStore(place))
    assert run(["doctor", "--store", str(place), "--json"]) == 1
    out, err = capsys.readouterr()
    told, documented = json.loads(out), json.loads(_example())
    assert err == ""
    assert told["findings"][0]["key"] == KEY
    repaired = json.loads(render_json(examined(DirectoryStore(place), repair=True)))
    assert _shape({**told, "repaired": repaired["repaired"]}) == _shape(documented)
    assert told["healthy"] is False
    assert repaired["healthy"] is True


def _example() -> str:
    text = PAGE.partition("## JSON")[2]
    return "\n".join(line for line in text.splitlines() if line.startswith("    "))


def _shape(told: Any) -> Any:
    """The names of all fields, whatever their values; what is counted by kind has none."""
    if isinstance(told, Mapping):
        return {name: _shape(value) for name, value in told.items() if name != "left_out"}
    return [_shape(told[0])] if isinstance(told, list) else None


@pytest.mark.parametrize("name", ["store-1", "store-1-stops", "store-1-blocks"])
def test_stores_of_earlier_versions_are_whole_and_looking_at_one_changes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Written now: in an old checkout, what waits to be deleted would be overdue.
    place = Path(shutil.copytree(GOLDEN / name, tmp_path / "store", copy_function=shutil.copyfile))
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert run(["doctor", "--store", str(place)]) == 0, capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_a_place_where_nothing_is_is_not_made_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--store", str(tmp_path / "none")]) == 1
    assert "cannot look in the store directory" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    for flags in ([], ["--repair"]):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert run(["doctor", "--store", str(tmp_path / "empty"), *flags]) == 1
        assert "error  config_missing  v1/config.json" in capsys.readouterr().out
        assert not (tmp_path / "empty" / "v1" / "config.json").exists()


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--store", "x", "--orphan-age-seconds", "599"],
        ["--store", "x", "--max-findings", "0"],
        ["--store", "x", "--collectors", "0"],
        ["--store", "x", "--retention-raw-days", "91"],
        ["--store", "x", "--flush-seconds", "0"],
        ["--store", "x", "--price-per-gb-month", "-1"],
        ["--store", "x", "--forget-lost"],
        ["--store", "x", "--offline"],
        ["--store", "x", "--quick", "--repair"],
        ["--store", "x", "--mend"],
    ],
)
def test_wrong_options_are_2(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: " in err
    assert "hint: " in err


def test_limits_are_allowed_at_their_edge() -> None:
    DoctorSettings(
        store="x",
        orphan_age_seconds=600.0,
        max_findings=1,
        collectors=1,
        retention_raw_days=0,
        retention_hour_days=0,
        retention_day_days=0,
    )
    with pytest.raises(BadSetting):
        DoctorSettings(store="x", orphan_age_seconds=599.9)


def test_findings_beyond_the_limit_are_counted_and_a_person_sees_fewer() -> None:
    store = stored([window(at=7200 * at) for at in range(MAX_SHOWN + 6)])
    assert render_text(examined(store)).count("note  gap  v1/") == MAX_SHOWN
    assert "note  gap: 5 more; --json has them" in render_text(examined(store))
    report = examined(store, max_findings=MAX_SHOWN + 4)
    assert json.loads(render_json(report))["left_out"] == {"gap": 1}
    assert "gap: 1 more that were only counted (--max-findings)" in render_text(report)
    assert json.loads(render_json(examined(store, max_findings=MAX_SHOWN + 5)))["left_out"] == {}


def test_a_bucket_is_checked_and_repaired_with_the_credentials_of_the_collector(
    s3_server: S3Server, new_bucket: Callable[[], str], tmp_path: Path
) -> None:
    bucket = new_bucket()
    store = whole(S3Store(bucket, "some/prefix", endpoint=s3_server.endpoint))
    store.delete(block(store).ref.key("hours"))
    command = processes.sidelight("doctor", "--store", f"s3://{bucket}/some/prefix", "--json")
    command += ["--s3-endpoint", s3_server.endpoint]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert (found.returncode, found.stderr) == (1, "")
    kinds = {each["kind"] for each in json.loads(found.stdout)["findings"]}
    assert {"object_missing", "conditions_untested"} <= kinds
    mended = subprocess.run([*command, "--repair"], capture_output=True, text=True, check=False, timeout=60)
    assert (mended.returncode, mended.stderr) == (0, "")
    told = json.loads(mended.stdout)
    assert told["store"]["conditional_writes"] is True
    assert len(told["repaired"]) == 1


def test_without_the_native_extension_it_says_what_that_means(place: Path) -> None:
    program = (
        "import sys; sys.modules['sidelight_native'] = None\n"
        f"from sidelight.main import run; sys.exit(run(['doctor', '--store', {str(place)!r}, '--json']))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    told = json.loads(found.stdout)
    assert told["machine"]["native"] is None
    (note,) = [each for each in told["findings"] if each["kind"] == "native_missing"]
    assert note["severity"] == "note"
    assert "answers the same" in note["message"]


def test_ctrl_c_ends_it_at_once_whatever_it_waits_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        command = processes.sidelight(
            "doctor", "--store", "s3://bucket/prefix", "--store-timeout-seconds", "600"
        )
        command += ["--s3-endpoint", f"http://127.0.0.1:{silent.getsockname()[1]}"]
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        with processes.running(tmp_path / "log", *command, env=keys) as process:
            asked, _ = silent.accept()
            with asked:
                assert asked.recv(1)
                assert process.end(signal.SIGINT, seconds=90.0) == 130
            assert "Traceback" not in process.said()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = ProgressLine(stream)
        progress.show("2026-11-21 (1 of 2): listing")
        progress.clear()
    assert terminal.getvalue() == "\r\x1b[K2026-11-21 (1 of 2): listing\r\x1b[K"
    assert file.getvalue() == ""


def test_every_kind_of_finding_is_documented() -> None:
    rows = re.findall(r"^\|`([a-z_]+)`\|(error|warning|note)\|", PAGE, re.MULTILINE)
    assert [name for name, _ in rows] == [kind.value for kind in FindingKind]
