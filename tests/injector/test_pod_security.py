"""What each level of the Pod Security Standards takes of a container."""

import pytest

from sidelight_injector.admission.pod_security import find_violation

STRICT = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize("level", ["privileged", "baseline", "restricted"])
def test_a_container_without_capabilities_under_the_services_user_is_taken_everywhere(level):
    assert find_violation({"securityContext": STRICT}, level) == ""


@pytest.mark.parametrize("level", ["baseline", "restricted", "a level of a later Kubernetes"])
def test_reading_other_processes_is_refused_by_all_but_privileged(recipe, level):
    assert "the capability SYS_PTRACE" in find_violation(recipe.container, level)
    assert find_violation(recipe.container, "privileged") == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"runAsUser": 0}, "uid 0"),
        ({"runAsNonRoot": False}, "runAsNonRoot: false"),
        ({"allowPrivilegeEscalation": None}, "privilege escalation"),
        ({"capabilities": {}}, "capabilities that are not dropped"),
        ({"seccompProfile": None}, "no seccomp profile"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccomp Unconfined"),
        ({"privileged": True}, "privileged: true"),
    ],
)
def test_each_thing_that_restricted_refuses_is_named(change, told):
    assert told in find_violation({"securityContext": {**STRICT, **change}}, "restricted")
