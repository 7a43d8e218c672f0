"""A port for the sidecar that nothing else in the pod seems to use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

MAX_PORTS_TRIED: Final = 20


def find_free_port(containers: Iterable[Mapping[str, Any]], preferred: int) -> int | None:
    """`preferred`, or the first of the next ports that no container's spec names; None when all are taken.

    The containers of a pod share its ports, and a native sidecar listens before the service does. Many a
    service does not declare its port, so any number in its command, variables or probes counts as well.
    """
    text = json.dumps([{**one, "image": ""} for one in containers])
    named = {int(number) for number in re.findall(r"(?<![0-9.])[0-9]{1,5}(?![0-9])", text)}
    candidates = range(preferred, min(preferred + MAX_PORTS_TRIED, 65536))
    return next((port for port in candidates if port not in named), None)
