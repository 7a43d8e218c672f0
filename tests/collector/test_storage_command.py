"""`sidelight storage`, as a person uses it."""

from __future__ import annotations

import io
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from sidelight import main
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.pins import read_pins
from sidelight_collector.storage.segments import event_day
from tests.collector.stored_windows import stored, window
from tests.processes import S3Server

DAY = 86_400
SECOND_NS = 10**9


def run(*argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, which is spared the start of another."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            status = main.run(["storage", *argv])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(argv, status, out.getvalue(), err.getvalue())


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, int]:
    """A store with a block of 20 days ago, of two services and a capture; and when its windows began."""
    start = (time.time_ns() // SECOND_NS // DAY - 20) * DAY
    at = start - 1_795_253_400
    windows = [window(at=at), window(at=at + 60, service="ads"), window(at=at + 90, capture="01CAP")]
    store = DirectoryStore(tmp_path / "store")
    stored(windows, store=store)
    Compaction(store, Metrics(), CompactionPolicy(), interval_seconds=1).run_once()
    return str(tmp_path / "store"), start


def test_it_says_what_would_go_and_why(kept: tuple[str, int]) -> None:
    store, start = kept
    found = run("retention", "--store", store, "--retention-services", "shop=30/90/400")
    day = event_day(start * SECOND_NS).isoformat()
    head, row, last = found.stdout.splitlines()
    assert head.split()[:2] == ["day", "services"]
    assert row.startswith(f"{day}  ads shop  windows -> hours of ads, windows of shop")
    assert row.endswith("age")
    assert last == "0 bytes of 1 blocks, and 0 objects of days that are over"
    assert run("retention", "--store", store, "--retention-raw-days", "30").stdout == "nothing would go\n"
    old = ["--retention-raw-days", "7", "--retention-hour-days", "7", "--retention-day-days", "7"]
    assert f"{day}  all" in run("retention", "--store", store, *old).stdout
    environment = {"SIDELIGHT_STORE": store, "SIDELIGHT_RETENTION_RAW_DAYS": "30"}
    assert run("retention", **environment).stdout == "nothing would go\n"


def test_pins_are_made_listed_and_taken_away(kept: tuple[str, int]) -> None:
    store, start = kept
    assert run("pins", "--store", store).stdout == "there are no pins\n"
    made = run("pin", "week", "--store", store, "--from", "-21d", "--until", "-19d", "--reason", "why not")
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("week: all services, days from ")
    capture = run("pin", "cap", "--capture", "01CAP", SIDELIGHT_STORE=store, SIDELIGHT_SERVICE="other")
    assert "cap: service shop" in capture.stdout
    assert "capture 01CAP" in capture.stdout
    (cap, week) = read_pins(DirectoryStore(Path(store)))
    assert (cap.start, cap.until, cap.service) == (start + 90, start + 100, "shop")
    assert (week.service, week.reason) == ("", "why not")
    assert run("retention", "--store", store).stdout == "nothing would go\n"
    assert run("pins", "--store", store).stdout.splitlines() == [
        capture.stdout.strip(),
        made.stdout.strip(),
    ]
    assert run("unpin", "week", "--store", store).stdout == "week is taken away\n"
    assert "windows -> hours of ads, windows of shop" in run("retention", "--store", store).stdout


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["pin", "a"], 2, "--from or --capture"),
        (["pin", "a", "--from", "-1d", "--capture", "x"], 2, "--from or --capture"),
        (["pin", "a", "--from", "-1d", "--until", "-2d"], 2, "not after"),
        (["pin", "a", "--from", "yesterday"], 1, "is not a time"),
        (["pin", "A", "--from", "-1d"], 1, "cannot be the name"),
        (["pin", "a", "--capture", "nobody"], 1, "no window of the capture"),
        (["pin", "--from", "-1d"], 2, "NAME is required"),
        (["unpin", "a"], 1, "no pin"),
        (["lifecycle"], 1, "not a bucket"),
        (["lifecycle", "--days", "0"], 2, "at least 1"),
        (["nothing"], 2, "no action"),
        (["retention", "--retention-raw-days", "1"], 2, "max_age_days"),
    ],
)
def test_what_cannot_be_done_says_why(
    kept: tuple[str, int], argv: list[str], code: int, message: str
) -> None:
    found = run(*argv, SIDELIGHT_STORE=kept[0])
    assert found.returncode == code
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_looking_at_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    for action in ("retention", "pins"):
        found = run(action, "--store", str(tmp_path / "typo"))
        assert found.returncode == 1
        assert "typo" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_says_what_there_is() -> None:
    for argv in (["--help"], ["pin", "--help"], ["retention", "--help"], ["lifecycle", "--help"]):
        found = run(*argv)
        assert found.returncode == 0
        assert "usage: sidelight storage" in found.stdout
    assert run().returncode == 2


def test_a_lifecycle_rule_is_shown_and_the_server_has_the_last_word(
    s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    store = f"s3://{new_bucket()}/some"
    shown = run("lifecycle", "--store", store, "--s3-endpoint", s3_server.endpoint, "--days", "21")
    assert '"Filter": {"Prefix": "some/v1/l0/"}' in shown.stdout
    assert '"Days": 21' in shown.stdout
    # This server has no lifecycles: what it says is told.
    applied = run("lifecycle", "--store", store, "--s3-endpoint", s3_server.endpoint, "--apply")
    assert applied.returncode == 1
    assert "NotImplemented" in applied.stderr


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Store, Stubber]]:
    """A store whose server is made up, for the one here has no lifecycles."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    client: Any = boto3.session.Session().client("s3", region_name="us-east-1")
    store = S3Store("bucket", "some")
    monkeypatch.setattr(store, "_client", client)
    with Stubber(client) as stub:
        yield store, stub
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    "before", [None, [], [{"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "x/"}}]]
)
def test_a_lifecycle_rule_leaves_others_alone(
    stubbed: tuple[S3Store, Stubber], before: list[dict[str, object]] | None
) -> None:
    store, stub = stubbed
    ours = {
        "ID": "sidelight segments some/v1/l0/",
        "Status": "Enabled",
        "Filter": {"Prefix": "some/v1/l0/"},
        "Expiration": {"Days": 30},
    }
    if before is None:
        stub.add_client_error("get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration")
    else:
        earlier = {**ours, "Expiration": {"Days": 7}}
        stub.add_response("get_bucket_lifecycle_configuration", {"Rules": [earlier, *before]})
    stub.add_response(
        "put_bucket_lifecycle_configuration",
        {},
        {"Bucket": "bucket", "LifecycleConfiguration": {"Rules": [*(before or []), ours]}},
    )
    store.set_segment_expiration(30, apply=True)
