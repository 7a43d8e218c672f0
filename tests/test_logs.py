"""Log lines: no secrets of URLs, no control characters, in both formats."""

from __future__ import annotations

import json

import pytest
import structlog

from sidelight import logs
from sidelight.settings import mask_secrets, parse_settings
from sidelight_collector.settings.collector import Settings

HOSTILE = "\x1b[31mred\x1b]0;owned\x07\r\n\x9b2J\u202etxt\u2066"


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_log_lines_show_control_characters_as_text(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=as_json, service=HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        structlog.get_logger().exception(
            HOSTILE, name=HOSTILE, names=[HOSTILE], error=error, nested={HOSTILE: HOSTILE}
        )
    lines = capsys.readouterr().err
    assert all(letter.isprintable() or letter == "\n" for letter in lines)
    assert lines.count("red") >= 6
    if as_json:
        event = json.loads(lines)
        assert (event["event"], event["name"], event["service"]) == (HOSTILE, HOSTILE, HOSTILE)
        assert lines.count("\n") == 1


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_log_lines_mask_secrets_in_urls(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://shop:s3cret@host/?token=s3cret"
    logs.configure(json=as_json)
    try:
        raise ConnectionError(f"cannot connect to {url}")
    except ConnectionError as error:
        structlog.get_logger().exception(
            f"no {url}", url=url, urls=(url, url), error=error, settings={"endpoint": url}
        )
    lines = capsys.readouterr().err
    assert "s3cret" not in lines
    assert lines.count("shop:***@host/?token=***") >= 6


URL_FLAGS = {
    "s3-endpoint": "http://u:s3cret@host:9000",
    "engine": "clickhouse://u:s3cret@host:8123",
    "prometheus-url": "http://u:s3cret@host:9090/?token=s3cret",
    "deploy-webhook-url": "https://host/s3cret?token=s3cret",
    "alertmanager-url": "http://u:s3cret@host:9093",
}


def test_settings_are_logged_without_the_secrets_in_their_urls(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [word for flag, url in URL_FLAGS.items() for word in (f"--{flag}", url)]
    settings = parse_settings(
        Settings,
        "collector",
        "",
        [*flags, "--store", "s3://b/p", "--prometheus-requests-query", "x{step}"],
        {},
    )
    logs.configure(json=True)
    structlog.get_logger().info("starting", **mask_secrets(settings))
    line = capsys.readouterr().err
    assert "s3cret" not in line
    assert json.loads(line)["s3_endpoint"] == "http://u:***@host:9000"
