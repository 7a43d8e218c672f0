"""A port for the sidecar that nothing else in the pod seems to use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

MAX_PORTS_TRIED: Final = 20


def find_free_port(containers: Iterable[Mapping[str, Any]], preferred: int) -> int | None:
    """Return `preferred` or the next port that no container names, or None.

    At most `MAX_PORTS_TRIED` ports are tried; None means that the containers name all of them. The
    containers of a pod share its ports, and a native sidecar listens before the service does. Many services
    do not declare their port, so any number in a container's command, variables or probes counts as a named
    port.
    """
    text = json.dumps([{**container, "image": ""} for container in containers])
    named = {int(number) for number in re.findall(r"(?<![0-9.])[0-9]{1,5}(?![0-9])", text)}
    candidates = range(preferred, min(preferred + MAX_PORTS_TRIED, 65536))
    return next((port for port in candidates if port not in named), None)
