"""Checks of the installation on this machine."""

from __future__ import annotations

from sidelight_collector.doctor.findings import FindingKind, StoreFinding, make_note
from sidelight_collector.native_kernel import NativeKernelStatus


def check_machine(kernel: NativeKernelStatus) -> list[StoreFinding]:
    """Return a note if the native extension is not used."""
    if kernel.is_native:
        return []
    message = (
        f"the native extension is not used on this machine ({kernel.reason}): a collector here works and "
        "answers the same, with more CPU time a window and a query"
    )
    return [make_note(FindingKind.NATIVE_MISSING, "", message, kernel.hint)]
