"""The extension `sidelight_native` where its kernel is used: the only module of the collector that loads it.

The collector can do without it: next to each use stands a reference in Python that gives the same to the last
bit.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final

_REQUIRED_NAMES: Final = ("fold", "Pool")


@dataclass(frozen=True, slots=True)
class NativeKernelStatus:
    """Which kernel is used: its version when it is the native one, else why it is not."""

    is_native: bool
    version: str
    reason: str

    @property
    def hint(self) -> str:
        """What to do for the native one; nothing when it is used."""
        if self.is_native:
            return ""
        return "Install the wheel sidelight_native of this release: without it all works, but slower."


def _load() -> tuple[Any | None, NativeKernelStatus]:
    try:
        module = importlib.import_module("sidelight_native")
    except ImportError as error:
        return None, NativeKernelStatus(False, "", str(error))
    version = str(getattr(module, "__version__", ""))
    if not all(hasattr(module, name) for name in _REQUIRED_NAMES):
        return None, NativeKernelStatus(
            False, version, f"sidelight_native {version} is of an earlier release"
        )
    return module, NativeKernelStatus(True, version, "")


_LOADED: Final = _load()

NATIVE: Final[Any | None] = _LOADED[0]
"""The extension, or None where it is not installed."""


def get_kernel_status() -> NativeKernelStatus:
    """Which kernel this process uses."""
    return _LOADED[1]
