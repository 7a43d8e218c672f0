from __future__ import annotations

from pathlib import Path

import pytest

from sidelight.settings import BadSetting
from sidelight_model.errors import SidelightError
from sidelight_sidecar.settings import SidecarSettings, parse_sidecar_settings
from sidelight_sidecar.state_directory import find_state_directory

BASE = ["--collector", "http://127.0.0.1:8080", "--service", "shop"]


def read(*argv: str, **environ: str) -> SidecarSettings:
    return parse_sidecar_settings([*BASE, *argv], environ)


def test_every_option_is_also_a_variable() -> None:
    environ = {
        "SIDELIGHT_COLLECTOR": "https://profiles.example/sub/",
        "SIDELIGHT_SERVICE": "shop",
        "SIDELIGHT_VERSION": "7",
        "SIDELIGHT_ALL": "true",
        "SIDELIGHT_RATE": "50",
        "SIDELIGHT_LABEL": "team=checkout,zone=b",
    }
    settings = parse_sidecar_settings([], environ)
    assert settings.collector == "https://profiles.example/sub"
    assert dict(settings.labels) == {
        "service": "shop", "version": "7", "pod": settings.pod, "team": "checkout", "zone": "b",
    }  # fmt: skip
    assert (settings.rate, settings.all) == (50, True)


def test_jitter_is_a_tenth_of_the_interval_unless_given_and_always_fits() -> None:
    assert read("--all").effective_jitter_seconds == 0
    assert read("--all", "--interval-seconds", "60").effective_jitter_seconds == 6
    assert read("--all", "--interval-seconds", "60", "--jitter-seconds", "50").effective_jitter_seconds == 50
    assert read("--all", "--interval-seconds", "11").effective_jitter_seconds == 1
    assert read("--all", "--interval-seconds", "10").effective_jitter_seconds == 0


def test_the_default_spool_is_the_same_after_a_restart_and_its_own_for_each_port() -> None:
    assert read("--all").spool_directory == read("--all").spool_directory
    assert read("--all").spool_directory != read("--all", "--listen", "127.0.0.1:8082").spool_directory
    assert read("--all", "--spool-dir", "/var/spool/s").spool_directory == Path("/var/spool/s")


def test_the_default_spool_is_in_the_state_directory_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    state = tmp_path / ".local" / "state"
    assert find_state_directory({"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}) == Path("/s")
    assert find_state_directory({"XDG_STATE_HOME": "relative", "XDG_RUNTIME_DIR": "/r"}) == state
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    assert find_state_directory({"XDG_RUNTIME_DIR": "/r"}) == Path("/r")
    with pytest.raises(BadSetting, match="no directory for the spool") as raised:
        find_state_directory({})
    assert "--spool-dir" in raised.value.hint


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "nothing says what to watch"),
        (["--pid", "1", "--all"], "--pid and --all cannot go together"),
        (["--pid", "0"], "not a process id"),
        (["--match", "("], "not a regular expression"),
        (["--match", "(?=app)"], "not a regular expression"),
        (["--all", "--rate", "0"], "--rate must be"),
        (["--all", "--rate", "1001"], "--rate must be"),
        (["--all", "--rate", "99.5"], "not a whole number"),
        (["--all", "--window-seconds", "0.01"], "--window-seconds must be"),
        (["--all", "--window-seconds", "1801"], "--window-seconds must be"),
        (["--all", "--interval-seconds", "5"], "must not be shorter"),
        (["--all", "--interval-seconds", "20", "--jitter-seconds", "11"], "must fit between"),
        (["--all", "--jitter-seconds", "1"], "needs --interval-seconds"),
        (["--all", "--on-demand", "--interval-seconds", "60"], "cannot go together"),
        (["--all", "--mode", "fast"], "not one of"),
        (["--all", "--max-depth", "5000"], "--max-depth"),
        (["--all", "--spool-max-bytes", "1k"], "--spool-max-bytes"),
        (["--all", "--batch-max-bytes", "64M"], "--batch-max-bytes"),
        (["--all", "--max-processes", "0"], "--max-processes"),
        (["--all", "--max-connections", "0"], "--max-connections"),
        (["--all", "--header-timeout-seconds", "0"], "--header-timeout-seconds"),
        (["--all", "--label", "team"], "not NAME=VALUE"),
        (["--all", "--label", "pod=x"], "meaning of its own"),
        (["--all", "--label", "team=a", "--label", "team=b"], "given twice"),
        (["--all", "--label", "a b=c"], "not a label name"),
        (["--all", "--capture-max-rate", "0"], "--capture-max-rate"),
        (["--all", "--capture-max-rate", "10001"], "--capture-max-rate"),
        (["--all", "--listen", "8081"], "not HOST:PORT"),
        (["--all", "--log-level", "loud"], "--log-level"),
        (["--all", "--collector", "ftp://x"], "not an http"),
        (["--all", "--collector", "http://me:secret@x"], "--token-file"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_starts(argv: list[str], said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        read(*argv)
    assert said in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("label", ["1x=y", "x=" + "y" * 300, "x=a\nb"])
def test_labels_that_a_collector_would_refuse_are_refused_at_start(label: str) -> None:
    with pytest.raises(SidelightError):
        read("--all", "--label", label)


def test_the_edges_of_limits_are_allowed() -> None:
    read("--all", "--rate", "1000", "--window-seconds", "1800", "--max-depth", "4096")
    read("--all", "--rate", "1", "--window-seconds", "0.1", "--max-depth", "2", "--spool-max-bytes", "1M")
    read("--all", "--interval-seconds", "20", "--jitter-seconds", "10")
