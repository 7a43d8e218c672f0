"""A password in the URL of the store reaches no log and no error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sidelight.main import run
from tests import processes
from tests.collector.processes import post
from tests.processes import S3Server


def test_a_collector_logs_its_endpoint_without_the_password(
    s3_server: S3Server, new_bucket: Callable[[], str], tmp_path: Path
) -> None:
    endpoint = s3_server.endpoint.replace("//", "//shop:s3cret@")
    options = ("--s3-endpoint", endpoint, "--log-level", "debug")
    with processes.collector(tmp_path, f"s3://{new_bucket()}/p", *options, env=s3_server.environment) as one:
        post(int(one.url.rpartition(":")[2]), b"", "?token=s3cret")
        s3_server_gone = one.running.end()
    log = (tmp_path / "collector.log").read_text()
    assert s3_server_gone == 0
    assert "shop:***@" in log
    assert "s3cret" not in log


@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["storage", "pins"],
        ["collector", "--listen", "127.0.0.1:0"],
    ],
    ids=lambda words: words[0],
)
def test_commands_that_cannot_reach_the_store_print_no_password(
    words: list[str], s3_server: S3Server, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint = "http://shop:s3cret@127.0.0.1:1"
    store = ["--store", "s3://b/p", "--s3-endpoint", endpoint, "--store-timeout-seconds", "1"]
    assert run([*words, *store]) == 1
    printed = capfd.readouterr()
    assert "shop:***@127.0.0.1:1" in printed.err
    assert "s3cret" not in printed.out + printed.err


@pytest.mark.parametrize(
    "flag", ["--no-such-option", "--prometheus-url", "--public-url", "--attach-collector-url"]
)
def test_a_refused_setting_is_quoted_without_its_password(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["collector", "--store", "x", f"{flag}=http://shop:s3cret@host:port/"]) == 2
    assert "s3cret" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["query status", "export {}", "capture list", "compare {}", "sidecar"])
def test_a_password_in_the_url_of_the_collector_is_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = ["--service", "shop"] if command == "sidecar" else []
    assert run([*command.split(), "--collector", "http://shop:s3cret@host:8080", *service]) != 0
    printed = capsys.readouterr().err
    assert "s3cret" not in printed
    assert "--token-file" in printed
