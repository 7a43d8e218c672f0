"""The package of a frame, parsed from the frame's text.

The UI has the same rule in `web/src/flamegraph/tree/packages.ts`; the test vectors in
`web/test/vectors/packages.json` check both.
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
"""Modules of the standard library, including those that Python versions after 3.11 removed."""


class PackageKind(StrEnum):
    """The origin of a package.

    `package`: any package outside the standard library; `none`: a frame without a file.
    """

    PACKAGE = "package"
    STDLIB = "stdlib"
    NONE = "none"


class Package(NamedTuple):
    """A top-level package and its origin."""

    name: str
    kind: PackageKind


def classify_frame(text: str) -> Package:
    """Find the package of a frame.

    `text` is not escaped: `function (file)` or `function (file:line)`.
    """
    file = extract_file(text)
    if not file:
        return Package("", PackageKind.NONE)
    name = find_package_name(file)
    return Package(
        name,
        PackageKind.STDLIB if name in STDLIB_MODULES or file.startswith("<frozen") else PackageKind.PACKAGE,
    )


def find_package_name(file: str) -> str:
    """Return the top-level package of a file.

    A file without a folder is its own package.
    """
    return _ENDING.sub("", _LEADING.sub("", file).split("/", 1)[0])


def extract_file(text: str) -> str:
    """Return the file in a frame's text, or an empty text."""
    opened = text.rfind(" (")
    if opened <= 0 or not text.endswith(")"):
        return ""
    place = text[opened + 2 : -1]
    file, _, line = place.rpartition(":")
    return file if file and line.isascii() and line.isdigit() else place
