from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path

import pytest

from sidelight import main
from sidelight.main import COMMANDS, run
from sidelight.settings import (
    BadSetting,
    mask_secrets,
    parse_address,
    parse_byte_size,
    parse_nonnegative_int,
    parse_positive_float,
    parse_seconds,
    parse_settings,
    setting,
)


@dataclass(frozen=True, slots=True)
class Tea:
    kind: str = setting("green", "what to brew")
    steep_seconds: float = setting(60.0, "how long", parse=parse_positive_float)
    pid: tuple[int, ...] = setting((), "whom to serve", parse=parse_nonnegative_int)
    milk: bool = setting(False, "with milk")
    token: str | None = setting(None, "the secret", secret=True)
    cup: str | None = setting(None, "which cup", positional=True)

    def __post_init__(self) -> None:
        if self.kind == "green" and self.milk:
            raise ValueError("milk does not go with green tea")


@dataclass(frozen=True, slots=True)
class Flask:
    full: bool = setting(False, "how full", aliases=("-f",))
    size: float = setting(1.0, "how large", parse=parse_positive_float, aliases=("-s", "--volume"))
    owner: str = setting("", "whose", required=True)


@dataclass(frozen=True, slots=True)
class Kitchen:
    kettle: Path | None = setting(None, "where the water boils", parse=Path, required=True)


def brew(*argv: str, **environ: str) -> Tea:
    return parse_settings(Tea, "tea", "Make tea.", argv, environ)


def test_a_setting_comes_from_its_flag_then_its_variable_then_its_default() -> None:
    assert brew() == Tea()
    assert brew(SIDELIGHT_KIND="black").kind == "black"
    assert brew("--kind", "white", SIDELIGHT_KIND="black").kind == "white"


def test_a_repeated_flag_is_a_list_and_its_variable_is_separated_by_commas() -> None:
    assert brew("--pid", "1", "--pid", "2").pid == (1, 2)
    assert brew(SIDELIGHT_PID="1,2").pid == (1, 2)


def test_a_switch_is_turned_on_and_off() -> None:
    assert brew("--kind", "black", "--milk").milk
    assert brew("--kind", "black", SIDELIGHT_MILK="true").milk
    assert not brew("--no-milk", SIDELIGHT_MILK="true").milk


def test_a_positional_setting_is_given_without_a_flag() -> None:
    assert brew("mug").cup == "mug"


@pytest.mark.parametrize(
    "argv",
    [
        ["--steep-seconds", "0"],
        ["--steep-seconds", "long"],
        ["--steep-seconds", "nan"],
        ["--pid", "-1"],
        ["--nobody-knows-this"],
        ["--milk"],
        ["--stee", "3"],
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_with_what_to_do(argv: list[str]) -> None:
    with pytest.raises(BadSetting) as refused:
        brew(*argv)
    assert refused.value.hint


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(BadSetting, match="SIDELIGHT_STEEP_SECONDS"):
        brew(SIDELIGHT_STEEP_SECONDS="soon")
    with pytest.raises(BadSetting, match="SIDELIGHT_MILK"):
        brew(SIDELIGHT_MILK="perhaps")


@pytest.mark.parametrize("argv", [[], ["--kettle", ""]])
def test_a_required_setting_that_is_missing_or_empty_is_refused(argv: list[str]) -> None:
    with pytest.raises(BadSetting, match="--kettle is required"):
        parse_settings(Kitchen, "kitchen", "Cook.", argv, {})


def test_paths_are_shown_as_text() -> None:
    assert mask_secrets(parse_settings(Kitchen, "kitchen", "Cook.", ["--kettle", "/shelf/kettle"], {})) == {
        "kettle": "/shelf/kettle"
    }


def test_secrets_are_starred_when_settings_are_shown() -> None:
    assert mask_secrets(brew("--token", "hush"))["token"] == "***"
    assert mask_secrets(brew())["token"] is None


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("64k", 65536), ("32M", 32 << 20), ("2g", 2 << 30)])
def test_sizes_are_powers_of_1024(text: str, value: int) -> None:
    assert parse_byte_size(text) == value


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5M", "1T"])
def test_a_size_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        parse_byte_size(text)


def test_an_address_is_a_host_and_a_port() -> None:
    assert parse_address("127.0.0.1:8080") == ("127.0.0.1", 8080)
    assert parse_address("[::1]:0") == ("::1", 0)
    for bad in ("8080", ":8080", "host:", "host:70000"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            parse_address(bad)
    assert parse_seconds("0") == 0


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in COMMANDS)


def test_a_command_that_is_not_installed_names_its_distribution(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "find_spec", lambda _: None)
    monkeypatch.setattr(main, "_read_entry_points", lambda: EntryPoints(()))
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        "error: `sidelight record` is not installed\nhint: pip install 'sidelight-cli'\n"
    )
    assert run(["--help"]) == 0
    assert "Not installed here: sidecar, collector" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "package"),
    [
        (["collector", "--store", "store", "--allow-anonymous-writes"], "aiohttp"),
        (["sidecar", "--all", "--collector", "http://127.0.0.1:9", "--service", "shop"], "structlog"),
    ],
)
def test_a_server_names_the_package_that_it_lacks(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    argv: list[str],
    package: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    of_it = [name for name in sys.modules if name.partition(".")[0] in ("sidelight_" + argv[0], package)]
    for name in of_it:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert run(argv) == 1
    assert capsys.readouterr().err.startswith(
        f"error: `sidelight {argv[0]}` needs the package '{package}', which is not installed\n"
    )


def test_the_commands_are_the_entry_points_of_the_distributions() -> None:
    points = {point.name: point.value for point in entry_points(group=main.ENTRY_POINT_GROUP)}
    assert {name: entry.entry_point for name, entry in COMMANDS.items()} == points


def test_a_command_of_another_distribution_runs_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("sum", "builtins:len", main.ENTRY_POINT_GROUP)
    monkeypatch.setattr(main, "_read_entry_points", lambda: EntryPoints((point,)))
    assert run(["sum", "a", "b"]) == 2


def test_a_command_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile"]) == 2
    assert "there is no command 'profile'" in capsys.readouterr().err
    assert run([]) == 2


def test_the_demo_says_which_package_its_children_would_miss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tornado", None)
    assert run(["demo", "--seconds", "5", "--no-browser"]) == 1
    assert capsys.readouterr().err == (
        "error: the demo needs the package 'tornado', which is not installed\n"
        "hint: pip install 'sidelight-cli[demo]'\n"
    )


@pytest.mark.parametrize("argv", [["-f", "-s", "2"], ["--full", "--volume", "2"], ["-fs2"]])
def test_a_setting_may_be_written_in_more_than_one_way(argv: list[str]) -> None:
    assert parse_settings(Flask, "flask", "", [*argv, "--owner", "me"], None) == Flask(True, 2.0, "me")


def test_a_command_for_the_hand_takes_flags_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadSetting) as refused:
        parse_settings(Flask, "flask", "", [], None)
    assert "SIDELIGHT" not in refused.value.hint
    with pytest.raises(SystemExit):
        parse_settings(Flask, "flask", "", ["--help"], None)
    assert "SIDELIGHT" not in capsys.readouterr().out
