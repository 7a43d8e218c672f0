"""Settings: each is a dataclass field, a flag and an environment variable.

`setting(...)` declares a field of a frozen dataclass. `parse_settings` fills the dataclass from flags
first, then from `SIDELIGHT_<FIELD>` variables, then from defaults, and validates everything together. No
other module reads the environment. The same declarations print `--help`, are logged once at start (with
secrets masked), and a test compares them with the documentation.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NoReturn, TypeVar, cast

from sidelight_model.errors import Reason, SidelightError, mask_urls

T = TypeVar("T")
_NEGATIVE_NUMBER: Final = re.compile(r"-\d.*", re.ASCII)
_TIME_FLAG: Final = re.compile(r"--(?:(?:[ab]|baseline|comparison)-)?(?:from|until)")


class BadSetting(SidelightError):
    """A flag or variable has a value that cannot be used."""

    reason = Reason.BAD_SETTING


def setting(
    default: T | None,
    help: str,  # noqa: A002 - argparse's own word
    *,
    parse: Callable[[str], Any] = str,
    required: bool = False,
    secret: bool = False,
    positional: bool = False,
    metavar: str | None = None,
    aliases: Sequence[str] = (),
    is_boolean: bool = False,
) -> T:
    """Declare one setting.

    The field's name gives the flag (`--flag-name`) and the environment variable. `parse` converts text to
    the value and raises ValueError with the reason. A `bool` default makes a switch (`--x` / `--no-x`); a
    tuple default makes a flag that may be repeated (in the variable: values separated by commas). A
    `default` of None means "not set". A field whose name would be a Python keyword ends with `_`, which the
    flag and the variable omit. `aliases` are other spellings of the flag (`-x`). `is_boolean` makes a
    switch of a setting whose default is None.
    """
    options = {
        "help": help,
        "read": parse,
        "required": required,
        "secret": secret,
        "positional": positional,
        "metavar": metavar,
        "aliases": aliases,
        "switch": is_boolean or isinstance(default, bool),
    }
    return cast("T", dataclasses.field(default=default, metadata=options))


def parse_settings(
    cls: type[T], command: str, description: str, argv: Sequence[str], environ: Mapping[str, str] | None
) -> T:
    """Fill the settings dataclass `cls`; `--help` prints the flags and exits with 0.

    With `environ` None only flags are read: an interactive command must not use the variables of a service.
    Raises BadSetting for an unknown flag, a value that cannot be parsed, a required setting that is missing
    or empty, and for a ValueError or BadSetting of the dataclass's own `__post_init__`.
    """
    parser = _Parser(prog=f"sidelight {command}", description=description)
    fields = dataclasses.fields(cast("Any", cls))
    for field in fields:
        _add_argument(parser, field, variables=environ is not None)
    flags = vars(parser.parse_args(argv))
    values: dict[str, Any] = {}
    for field in fields:
        name = field.name
        # An empty flag is usually an unset shell variable: --store "$STORE" must not mean this directory.
        absent: tuple[object, ...] = (None, [], "") if field.metadata["required"] else (None, [])
        if flags.get(name) not in absent:
            values[name] = _convert_value(field, flags[name], format_flag(field))
        elif environ is not None and (text := environ.get(format_variable(field))):
            values[name] = _convert_value(field, _split_variable(field, text), format_variable(field))
        elif field.metadata["required"]:
            hint = f"Give {format_flag(field)}" + (
                f" or set {format_variable(field)}." if environ is not None else "."
            )
            raise BadSetting(f"{format_flag(field)} is required", hint=hint)
    try:
        return cls(**values)
    except ValueError as error:
        raise BadSetting(str(error), hint=f"See sidelight {command} --help.") from error


def change_settings(settings: T, texts: Mapping[str, str | None]) -> T:
    """Return settings with other values of some fields.

    A text is as in the variable of the field. An empty text, or None, is the default. Raises BadSetting.
    """
    fields = {field.name: field for field in dataclasses.fields(cast("Any", settings))}
    values = {
        name: _convert_value(field, _split_variable(field, text), format_variable(field))
        if text
        else field.default
        for name, text in texts.items()
        for field in [fields[name]]
    }
    try:
        return cast("T", dataclasses.replace(cast("Any", settings), **values))
    except ValueError as error:
        raise BadSetting(str(error), hint="See --help for what it takes.") from error


def join_negative_times(argv: Sequence[str]) -> list[str]:
    """Join `--from -15m` to one word: argparse would take -15m for an option."""
    words: list[str] = []
    for word in argv:
        if words and _TIME_FLAG.fullmatch(words[-1]) and _NEGATIVE_NUMBER.fullmatch(word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def format_variable(field: dataclasses.Field[Any]) -> str:
    """Return the name of a setting's environment variable."""
    return f"SIDELIGHT_{field.name.rstrip('_').upper()}"


def format_flag(field: dataclasses.Field[Any]) -> str:
    """Return a setting's flag, or a positional argument's name in capitals."""
    if field.metadata["positional"]:
        return field.name.upper()
    return "--" + field.name.rstrip("_").replace("_", "-")


def mask_secrets(settings: object) -> dict[str, object]:
    """Return the settings for the log.

    Secrets are masked, also those in URLs, and paths are text.
    """
    fields = dataclasses.fields(cast("Any", settings))
    return {
        field.name: "***" if field.metadata["secret"] and value else _to_loggable(value)
        for field in fields
        for value in [getattr(settings, field.name)]
    }


def _to_loggable(value: object) -> object:
    if isinstance(value, str | PurePath):
        return mask_urls(str(value))
    return tuple(map(_to_loggable, value)) if type(value) is tuple else value


class _Parser(argparse.ArgumentParser):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise BadSetting(message, hint=f"See {self.prog} --help.")


def _add_argument(parser: argparse.ArgumentParser, field: dataclasses.Field[Any], *, variables: bool) -> None:
    meta, default = field.metadata, field.default
    text = (f"{meta['help']} [{format_variable(field)}]" if variables else meta["help"]).replace("%", "%%")
    if default not in (None, "", ()):
        text += f" (default: {_format_default(default)})".replace("%", "%%")
    common: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
    names = sorted([format_flag(field), *meta["aliases"]], key=lambda name: name.startswith("--"))
    if meta["positional"]:
        count = "*" if isinstance(default, tuple) else "?"
        parser.add_argument(field.name, nargs=count, metavar=meta["metavar"] or field.name.upper(), **common)
    elif meta["switch"]:
        parser.add_argument(*names, dest=field.name, action=argparse.BooleanOptionalAction, **common)
    else:
        action = "append" if isinstance(default, tuple) else "store"
        metavar = meta["metavar"] or field.name.rpartition("_")[2].upper()
        parser.add_argument(*names, dest=field.name, action=action, metavar=metavar, **common)


def _format_default(default: object) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _split_variable(field: dataclasses.Field[Any], text: str) -> object:
    if field.metadata["switch"]:
        words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if text.lower() not in words:
            raise BadSetting(
                f"{format_variable(field)}={text!r} is neither true nor false", hint="Use true or false."
            )
        return words[text.lower()]
    return text.split(",") if isinstance(field.default, tuple) else text


def _convert_value(field: dataclasses.Field[Any], raw: object, origin: str) -> object:
    parse_value = field.metadata["read"]
    try:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, list):
            return tuple(parse_value(item) for item in raw)
        return parse_value(raw)
    except ValueError as error:
        raise BadSetting(f"{origin}: {error}", hint="See --help for what it takes.") from error


def make_choice_parser(*words: str) -> Callable[[str], str]:
    """Create a parser that accepts only these words."""

    def parse_choice(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return parse_choice


def parse_seconds(text: str) -> float:
    """Parse a duration in seconds, zero or more."""
    value = _parse_finite_float(text)
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    return value


def parse_positive_float(text: str) -> float:
    """Parse a number above zero."""
    value = _parse_finite_float(text)
    if value <= 0:
        raise ValueError(f"{text!r} is not above zero")
    return value


def parse_nonnegative_float(text: str) -> float:
    """Parse a number, zero or more."""
    value = _parse_finite_float(text)
    if value < 0:
        raise ValueError(f"{text!r} is below zero")
    return value


def parse_nonnegative_int(text: str) -> int:
    """Parse a whole number, zero or more."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def parse_byte_size(text: str) -> int:
    """Parse a number of bytes: 1048576, 64k, 32M, 2G (powers of 1024)."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    digits, factor = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1)
    return parse_nonnegative_int(digits) * factor


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT into (host, port).

    The system chooses a free port for port 0; [::1]:80 is an IPv6 address.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _parse_finite_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{text!r} is not a finite number")
    return value
