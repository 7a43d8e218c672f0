"""Check a container against a level of the Pod Security Standards.

A namespace that enforces `baseline` or `restricted` refuses a whole pod. A sidecar needs SYS_PTRACE to read
other processes, and both levels refuse that capability: injecting the sidecar there would cost somebody
their pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"
LEVELS: Final = ("privileged", "baseline", "restricted")
_BASELINE_MAY_ADD: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)


def find_violation(container: Mapping[str, Any], level: str) -> str:
    """Return the container's settings that this level refuses, or "" if it is allowed."""
    if level == "privileged":
        return ""
    context = container.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    may_add = _BASELINE_MAY_ADD if level == "baseline" else frozenset({"NET_BIND_SERVICE"})
    violations = [f"the capability {name}" for name in capabilities.get("add") or () if name not in may_add]
    if context.get("privileged"):
        violations.append("privileged: true")
    profile = (context.get("seccompProfile") or {}).get("type")
    if profile == "Unconfined":
        violations.append("seccomp Unconfined")
    if level != "baseline":
        # Kubernetes treats an unknown level as the strictest one.
        violations += _find_restricted_violations(context, capabilities)
    return ", ".join(violations)


def _find_restricted_violations(context: Mapping[str, Any], capabilities: Mapping[str, Any]) -> list[str]:
    violations = []
    if context.get("runAsUser") == 0:
        violations.append("uid 0")
    if context.get("runAsNonRoot") is False:
        violations.append("runAsNonRoot: false")
    if context.get("allowPrivilegeEscalation") is not False:
        violations.append("privilege escalation")
    if "ALL" not in (capabilities.get("drop") or ()):
        violations.append("capabilities that are not dropped")
    if not (context.get("seccompProfile") or {}).get("type"):
        violations.append("no seccomp profile")
    return violations
