"""The package that a frame belongs to, read off its text.

The same rule as the pages' (`web/src/flamegraph/tree/packages.ts`): both are held to
`web/test/vectors/packages.json`.
"""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Final, NamedTuple

_LEADING = re.compile(r"^[/<]+")
_ENDING = re.compile(r"\.(?:py|pyx|so)\Z|>\Z")

_REMOVED_MODULES = (
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis "
    "nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib"
)
STDLIB_MODULES: Final = frozenset(
    [
        *(name for name in sys.stdlib_module_names if not name.startswith("_")),
        *_REMOVED_MODULES.split(),
        "_weakrefset",
    ]
)
"""Modules of the standard library, those included that versions after 3.11 have no longer."""


class PackageKind(StrEnum):
    """Whose a package is: the standard library's, anybody else's, or nobody's (a frame without a file)."""

    PACKAGE = "package"
    STDLIB = "stdlib"
    NONE = "none"


class Package(NamedTuple):
    """A top-level package, and whose it is."""

    name: str
    kind: PackageKind


def classify_frame(text: str) -> Package:
    """The package of a frame as people read it (not escaped), `function (file)` or `function (file:line)`."""
    file = extract_file(text)
    if not file:
        return Package("", PackageKind.NONE)
    name = find_package_name(file)
    return Package(
        name,
        PackageKind.STDLIB if name in STDLIB_MODULES or file.startswith("<frozen") else PackageKind.PACKAGE,
    )


def find_package_name(file: str) -> str:
    """The top-level package a file lies in; a file with no folder is a package of its own."""
    return _ENDING.sub("", _LEADING.sub("", file).split("/", 1)[0])


def extract_file(text: str) -> str:
    """The file in a frame's text, empty where it names none."""
    opened = text.rfind(" (")
    if opened <= 0 or not text.endswith(")"):
        return ""
    place = text[opened + 2 : -1]
    file, _, line = place.rpartition(":")
    return file if file and line.isascii() and line.isdigit() else place
