"""Whether Pod Security would refuse a container, level by level as the Pod Security Standards have it.

A namespace that enforces `baseline` or `restricted` refuses a pod as a whole. A sidecar that reads other
processes takes SYS_PTRACE, which both refuse, so injecting it there would cost somebody their pod.
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
    """What of the container a namespace of this level refuses; empty when it takes it."""
    if level == "privileged":
        return ""
    context = container.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    may_add = _BASELINE_MAY_ADD if level == "baseline" else frozenset({"NET_BIND_SERVICE"})
    found = [f"the capability {one}" for one in capabilities.get("add") or () if one not in may_add]
    if context.get("privileged"):
        found.append("privileged: true")
    profile = (context.get("seccompProfile") or {}).get("type")
    if profile == "Unconfined":
        found.append("seccomp Unconfined")
    if level != "baseline":
        # A level that Kubernetes does not know is taken by it for the strictest.
        found += _find_restricted_violations(context, capabilities)
    return ", ".join(found)


def _find_restricted_violations(context: Mapping[str, Any], capabilities: Mapping[str, Any]) -> list[str]:
    found = []
    if context.get("runAsUser") == 0:
        found.append("uid 0")
    if context.get("runAsNonRoot") is False:
        found.append("runAsNonRoot: false")
    if context.get("allowPrivilegeEscalation") is not False:
        found.append("privilege escalation")
    if "ALL" not in (capabilities.get("drop") or ()):
        found.append("capabilities that are not dropped")
    if not (context.get("seccompProfile") or {}).get("type"):
        found.append("no seccomp profile")
    return found
