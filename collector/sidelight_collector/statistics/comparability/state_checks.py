"""Check that both sides recorded the states that a profile type needs."""

from __future__ import annotations

from typing import Final

from sidelight_collector.statistics.comparability.check_result import (
    CheckResult,
    CheckSeverity,
    CheckState,
    make_match,
    make_mismatch,
    make_unreported,
)
from sidelight_collector.statistics.comparability.sampling_summary import CheckContext, SamplingSummary
from sidelight_collector.statistics.remedies import CHANGE_DEPLOYMENT, USE_CPU_TIME
from sidelight_model.counts import FURTHER_STATES, WAIT_REASONS, ProfileType

REQUIRED_STATES: Final = {
    ProfileType.CPU: "running",
    ProfileType.WALL: "idle",
    ProfileType.GIL: "gil",
    ProfileType.GIL_WAIT: "gil_wait",
    ProfileType.OFF_CPU: "idle",
}
"""The state without whose samples a profile type reads too low."""


def check_states(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    def describe_states(side: SamplingSummary) -> str:
        missing = ", no ".join(sorted(side.missing_states))
        return (f"no {missing}" if missing else "all recorded") if side.windows else ""

    in_a, in_b = describe_states(a), describe_states(b)
    if not in_a or not in_b:
        return make_unreported("states", in_a, in_b)
    required_state = REQUIRED_STATES.get(context.kind)
    blind = [name for name, side in zip("AB", (a, b), strict=True) if required_state in side.missing_states]
    if blind:
        text = (
            f"{' and '.join(blind)} recorded no {required_state} samples, without which "
            f"{context.kind} reads too low"
        )
        hint, remedy = (
            "Compare CPU time (type=cpu), or sample with the sidecar's extension: py-spy does not record it.",
            USE_CPU_TIME,
        )
        if context.kind is ProfileType.GIL_WAIT:
            hint = "Give the sidecar the capability DAC_READ_SEARCH, or compare CPU time (type=cpu)."
        if context.kind is ProfileType.CPU:
            hint, remedy = "Compare wall time (type=wall): the client sent no CPU time.", CHANGE_DEPLOYMENT
        return CheckResult(
            "states", CheckState.MISMATCH, CheckSeverity.BLOCKING, "states_missing", text, hint, remedy
        )
    if in_a == in_b:
        return make_match("states", f"{in_a} on both sides")
    different = {*a.missing_states} ^ {*b.missing_states}
    if different <= {*WAIT_REASONS}:
        old = "A" if different & {*a.missing_states} else "B"
        return make_match("states", f"{old} does not record all reasons of waits, which does not matter here")
    if "gil_wait" in different and different <= {"gil_wait", *WAIT_REASONS}:
        old = "A" if "gil_wait" in a.missing_states else "B"
        text = f"the idle time of {old} includes threads that waited for the GIL"
        if context.kind not in (ProfileType.WALL, ProfileType.OFF_CPU):
            return make_match("states", f"{text}, which does not matter here")
        return make_mismatch("states", text, "Give both sides' sidecars the capability DAC_READ_SEARCH.")
    if "cpu_wait" in different and different <= {*FURTHER_STATES}:
        old = "A" if "cpu_wait" in a.missing_states else "B"
        text = f"the CPU time of {old} includes threads that waited for a CPU"
        return make_mismatch("states", text, "Bring both sides to one release of the sidecar.")
    text = f"A {in_a}, B {in_b}: types that need what is missing read too low."
    if context.kind is ProfileType.CPU:
        return make_mismatch("states", text, "Sample both sides with the sidecar's extension.")
    return make_mismatch("states", text, "Compare CPU time (type=cpu).", USE_CPU_TIME)
