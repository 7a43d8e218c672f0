"""Load the optional Rust extension `sidelight_native`.

This is the only module of the collector that imports it. The collector works without it: every use has a
Python reference beside it that gives identical results.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.counts import STATES

_REQUIRED_NAMES: Final = ("fold", "pack_stacks", "build_segment_stacks", "Pool", "sum_pprof")


@dataclass(frozen=True, slots=True)
class NativeKernelStatus:
    """The kernel in use: the version of the native one, or why it is not used."""

    is_native: bool
    version: str
    reason: str

    @property
    def hint(self) -> str:
        """How to enable the native kernel; empty if it is used."""
        if self.is_native:
            return ""
        return "Install the wheel sidelight_native of this release: without it all works, but slower."


def _load() -> tuple[Any | None, NativeKernelStatus]:
    try:
        module = importlib.import_module("sidelight_native")
    except ImportError as error:
        return None, NativeKernelStatus(False, "", str(error))
    version = str(getattr(module, "__version__", ""))
    has_names = all(hasattr(module, name) for name in _REQUIRED_NAMES) and hasattr(module.Pool, "walk")
    if not has_names or tuple(getattr(module, "STATES", ())) != STATES:
        return None, NativeKernelStatus(
            False, version, f"sidelight_native {version} is of an earlier release"
        )
    return module, NativeKernelStatus(True, version, "")


_LOADED: Final = _load()

NATIVE: Final[Any | None] = _LOADED[0]
"""The extension, or None if it is missing or of an earlier release."""


def get_kernel_status() -> NativeKernelStatus:
    """Return which kernel this process uses."""
    return _LOADED[1]
