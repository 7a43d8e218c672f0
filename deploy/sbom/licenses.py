"""Licences of packages: their SPDX expressions, and which of them Sidelight may ship."""

import functools
import importlib.metadata
import re

from license_expression import (
    AND,
    OR,
    ExpressionError,
    LicenseExpression,
    LicenseSymbol,
    Licensing,
    get_spdx_licensing,
)

ALLOWED = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0"),
        *("PSF-2.0", "Unicode-3.0", "Unlicense", "Zlib"),
    }
)
"""Licences of shipped packages. MPL-2.0 covers changes of its own files alone, and none is changed here."""

DECLARED = {"python-dateutil": "Apache-2.0 OR BSD-3-Clause"}
"""Licences of packages whose metadata names none: what their licence file says."""

BUNDLED = {"numpy": ("GPL-3.0-or-later WITH GCC-exception-3.1", "LGPL-2.1-or-later")}
"""GNU licences of libraries inside a wheel that its metadata does not name: GCC's runtime, and libquadmath.

Both are shared libraries that anybody may replace. GCC's exception permits any program that uses its runtime.
"""

_SPELLINGS = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "mit license": "MIT",
    "mit/apache-2.0": "MIT OR Apache-2.0",
    "python software foundation license": "PSF-2.0",
}
_LICENSE_FILE = re.compile(r"\.dist-info/.*(licen[cs]e|copying|notice)", re.IGNORECASE)
_BUNDLED_LICENSE = re.compile(r"^License: *(.*GPL.*?) *$", re.MULTILINE)


def to_spdx(text: str) -> str:
    """Return the SPDX expression for a common spelling of a licence, else the text itself."""
    return _SPELLINGS.get(text.strip().lower(), text.strip())


def read_metadata_license(name: str, metadata: importlib.metadata.PackageMetadata) -> str:
    """Read the licence of a Python package: an expression, else a text, else its only classifier."""
    if name in DECLARED:
        return DECLARED[name]
    texts = metadata.get_all("License-Expression") or metadata.get_all("License") or []
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    if not texts and len(classifiers) == 1:
        texts = [classifiers[0].rpartition("::")[2]]
    return to_spdx(texts[0]) if texts else ""


def is_allowed(expression: str) -> bool:
    """Tell whether ALLOWED permits a package with this SPDX expression; an unknown licence is not allowed."""
    try:
        parsed = _spdx().parse(expression, validate=True)
    except ExpressionError:
        return False
    return parsed is not None and _is_permitted(parsed)


def _is_permitted(parsed: LicenseExpression) -> bool:
    if isinstance(parsed, AND):
        return all(map(_is_permitted, parsed.args))
    if isinstance(parsed, OR):
        return any(map(_is_permitted, parsed.args))
    return isinstance(parsed, LicenseSymbol) and parsed.key in ALLOWED


def is_spdx(expression: str) -> bool:
    """Tell whether this is an SPDX expression of known licences."""
    try:
        return _spdx().parse(expression, validate=True) is not None
    except ExpressionError:
        return False


@functools.cache
def _spdx() -> Licensing:
    return get_spdx_licensing()


def find_bundled_gnu_licenses(name: str) -> tuple[str, ...]:
    """Find the GNU licences that an installed Python package lists for libraries inside its wheel."""
    paths = importlib.metadata.distribution(name).files or ()
    texts = [path.read_text(encoding="utf-8") for path in paths if _LICENSE_FILE.search(str(path))]
    return tuple(sorted({found for text in texts for found in _BUNDLED_LICENSE.findall(text)}))
