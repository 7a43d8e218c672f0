"""What of this machine's installation is missing."""

from __future__ import annotations

from sidelight_collector.doctor.findings import Finding, Kind, note
from sidelight_collector.native_kernel import Status


def findings(kernel: Status) -> list[Finding]:
    """A note if the native extension is not used."""
    if kernel.native:
        return []
    message = (
        f"the native extension is not used on this machine ({kernel.reason}): a collector here works and "
        "answers the same, with more CPU time a window and a query"
    )
    return [note(Kind.NATIVE_MISSING, "", message, kernel.hint)]
