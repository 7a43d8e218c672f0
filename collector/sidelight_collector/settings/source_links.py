"""Settings of source code links, a part of the collector's settings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from sidelight.settings import setting
from sidelight_collector.settings.pyroscope import PyroscopeSettings

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS: Final = ("service", "version", "file", "line")


def parse_source_url(text: str) -> tuple[str, str]:
    """Parse `TEMPLATE`, for which the service is empty, or `SERVICE=TEMPLATE`.

    Raises ValueError.
    """
    service, equals, template = text.partition("=")
    if "://" in service or not equals:
        service, template = "", text
    if not re.match(r"https?://[^/\s]+/", template) or re.search(r"\s", template):
        raise ValueError(f"{template[:80]!r} is not a URL of http or https with a path")
    for name in _PLACEHOLDER.findall(template):
        if name not in _PLACEHOLDERS:
            known = ", ".join(f"{{{each}}}" for each in _PLACEHOLDERS)
            raise ValueError(f"{{{name[:40]}}} is none of {known}")
    if "{file}" not in template:
        raise ValueError("the URL has no {file}")
    return service, template


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SourceLinkSettings(PyroscopeSettings):
    """Settings of the pages' links to source code.

    The collector's `Settings` include them.
    """

    source_url: tuple[tuple[str, str], ...] = setting(
        (),
        "URL of a source file, with {service}, {version}, {file} and {line}, for links from frames of the "
        "application; may be repeated; SERVICE= before it limits it to one service",
        parse=parse_source_url,
        metavar="[SERVICE=]URL",
    )
    source_strip: tuple[str, ...] = setting(
        (),
        "start of files' paths that the repository lacks, such as opt/shop/; may be repeated",
        metavar="PATH",
    )

    @property
    def sources(self) -> str:
        """The two settings as JSON for the pages; empty without any."""
        if not self.source_url and not self.source_strip:
            return ""
        return json.dumps({"urls": dict(self.source_url), "strip": self.source_strip}, sort_keys=True)
