"""What /readyz says is missing, beside real processes of which exactly that is missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc, ProcessKey, sees_only_itself
from sidelight_sidecar.health import READINESS_REASONS
from sidelight_sidecar.samplers.permissions import (
    MissingPermission,
    PtraceRights,
    TargetIdentity,
    find_missing_permission,
    format_hint,
    make_denied_error,
    read_target_identity,
)
from tests.processes import eventually, running
from tests.sidecar.conftest import Sidecar, Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sidecar.md").read_text()
OURS, OTHERS = 4711, 4712

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)


def user(uid: int, *options: str, gid: int | None = None) -> tuple[str, ...]:
    """As Kubernetes runs a container of a user that is not 0: no capability, none to be had."""
    ids = ("--reuid", str(uid), "--regid", str(uid if gid is None else gid), "--clear-groups")
    return ("setpriv", *ids, "--inh-caps", "-all", "--no-new-privs", *options)


NO_PTRACE = ("--bounding-set", "-sys_ptrace")
AS_ROOT_WITHOUT = ("setpriv", *NO_PTRACE, "--inh-caps", "-all", "--no-new-privs")
AS_ROOT_WITH_NOTHING = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs")


@pytest.fixture
def spool() -> Iterator[str]:
    """A directory that any user may reach and write."""
    if os.geteuid() == 0:
        python = [*user(OURS), sys.executable, "-c", "import sidelight"]
        if subprocess.run(python, capture_output=True, check=False).returncode:
            pytest.skip(f"other users may not run {sys.executable}: it lies where only root may look")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        yield f"{folder}/spool"


def refused(sidecar: Sidecar) -> dict[str, str]:
    def problem() -> dict[str, str] | None:
        found = [one for one in sidecar.get("/readyz")[1]["problems"] if "lacks" in one]
        return found[0] if found else None

    return eventually("it says what is missing", problem)


@needs_root
@pytest.mark.parametrize(
    ("wrapper", "target", "lacks", "said"),
    [
        (AS_ROOT_WITHOUT, user(OTHERS), MissingPermission.SYS_PTRACE, "Add SYS_PTRACE"),
        (
            user(OURS), user(OTHERS), MissingPermission.USER_0,
            f"The sidecar runs as user {OURS}, and only user 0",
        ),
        (user(OURS, *NO_PTRACE), user(OTHERS), MissingPermission.OTHER_USER, f"the process as user {OTHERS}"),
        (user(OURS), user(OURS, gid=OTHERS), MissingPermission.OTHER_GROUP, "the same runAsGroup"),
        (AS_ROOT_WITH_NOTHING, (), MissingPermission.TARGET_CAPABILITIES, "capabilities.drop"),
        (
            ("unshare", "--user", "--map-root-user"), user(OTHERS), MissingPermission.USER_NAMESPACE,
            "a user namespace that the sidecar's SYS_PTRACE does not reach",
        ),
    ],
)  # fmt: skip
def test_readiness_names_what_is_missing(
    wrapper: tuple[str, ...],
    target: tuple[str, ...],
    lacks: MissingPermission,
    said: str,
    start: Start,
    start_sidecar: StartSidecar,
    spool: str,
) -> None:
    process = start("spin", wrapper=target)
    sidecar = start_sidecar("--pid", str(process.pid), "--spool-dir", spool, wrapper=wrapper)
    problem = refused(sidecar)
    assert (problem["error"], problem["lacks"]) == ("ptrace_denied", lacks)
    assert said in problem["hint"]
    assert sidecar.get("/readyz")[0] == 503


@needs_root
def test_the_same_user_needs_no_capability_where_the_kernel_has_no_yama(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector, spool: str
) -> None:
    """With Yama the same pair is refused, and readiness says so."""
    process = start("spin", wrapper=user(OURS))
    sidecar = start_sidecar(
        "--pid", str(process.pid), "--spool-dir", spool, wrapper=user(OURS, "--bounding-set", "-all")
    )
    if Path("/proc/sys/kernel/yama/ptrace_scope").exists():
        assert refused(sidecar)["lacks"] in (MissingPermission.YAMA, MissingPermission.YAMA_OFF)
        return
    eventually("windows arrive", lambda: collector.taken)
    assert sidecar.get("/readyz")[0] == 200
    eventually("it works", lambda: any("busy" in stack for one in collector.taken for stack in one.counts))


@needs_root
def test_a_process_that_has_changed_its_user_is_not_dumpable(
    start: Start, start_sidecar: StartSidecar, spool: str
) -> None:
    process = start("unprivileged")
    wrapper = user(65534, "--bounding-set", "-all")
    problem = refused(start_sidecar("--pid", str(process.pid), "--spool-dir", spool, wrapper=wrapper))
    assert problem["lacks"] == MissingPermission.NOT_DUMPABLE


CAPABLE = struct.pack("<5I", 0x02000001, 1 << 19, 0, 0, 0)
"""SYS_PTRACE, permitted and effective, as `setcap` writes it (struct vfs_cap_data of capabilities(7))."""
ASK = """
import sys
from sidelight_sidecar.samplers import permissions
mine, target = permissions.read_own_rights(), permissions.read_target_identity(int(sys.argv[1]))
print("has it" if mine.has_sys_ptrace else permissions.find_missing_permission(mine, target))
"""


@needs_root
@pytest.mark.skipif(
    not Path("/usr/bin/python3.11").exists(), reason="needs Debian's Python, which any user may run"
)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-new-privs", "sh", "-c", 'exec "$@"', "sh"], MissingPermission.FILE_CAPABILITY),
        (["--no-new-privs"], "has it"),
        (["sh", "-c", 'exec "$@"', "sh"], "has it"),
    ],
)
def test_a_capability_of_the_interpreters_file_is_not_taken_on_where_privileges_may_not_grow(
    options: list[str], said: str, spool: str, start: Start
) -> None:
    """As with `allowPrivilegeEscalation: false`: only of what a container's runtime starts itself, not of
    what a shell starts."""
    process = start("spin", wrapper=user(OTHERS))
    interpreter = Path(spool).parent / "python"
    shutil.copy("/usr/bin/python3.11", interpreter)
    interpreter.chmod(0o755)
    os.setxattr(interpreter, "security.capability", CAPABLE)
    ids = ["setpriv", "--reuid", str(OURS), "--regid", str(OURS), "--clear-groups", *options]
    command = [*ids, str(interpreter), "-c", ASK, str(process.pid)]
    path = ":".join(str(ROOT / name) for name in ("core", "model", "sidecar"))
    found = {"PYTHONPATH": path, "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=found, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == said, done.stderr


SECCOMP = """
import ctypes, os, struct, sys
# Loads the number of the call; refuses this one with EPERM and allows every other.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(program)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, header) == 0, "seccomp cannot be used here"
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls differ")
@pytest.mark.parametrize(("number", "call"), [(101, "ptrace"), (310, "process_vm_readv")])
def test_a_seccomp_profile_that_refuses_a_call_is_named_with_the_call(
    number: int, call: str, start: Start, start_sidecar: StartSidecar
) -> None:
    process = start("spin")
    wrapper = (sys.executable, "-c", SECCOMP, str(number))
    sidecar = start_sidecar("--pid", str(process.pid), "--mode", "blocking", wrapper=wrapper)
    problem = refused(sidecar)
    assert (problem["error"], problem["lacks"]) == ("ptrace_denied", MissingPermission.SECCOMP)
    assert f"the call {call}:" in problem["hint"]


@needs_root
def test_a_sidecar_that_sees_only_itself_says_that_processes_are_not_shared(
    start_sidecar: StartSidecar,
) -> None:
    wrapper = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    problem = refused(start_sidecar("--all", wrapper=wrapper))
    assert (problem["error"], problem["lacks"]) == ("nothing_to_watch", MissingPermission.SHARED_PROCESSES)
    assert problem["hint"].startswith("Set shareProcessNamespace: true on the pod")


@needs_root
def test_beside_other_processes_a_service_that_has_not_started_is_no_missing_permission(
    start_sidecar: StartSidecar,
) -> None:
    """As in a pod that shares its processes: the pause container is there before all others."""
    pause = ("sh", "-c", 'sleep 600 & "$@"; wait', "sh")
    space = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    sidecar = start_sidecar("--all", wrapper=(*space, *pause))
    assert sidecar.get("/livez")[0] == 200
    seen = lambda: sidecar.get("/readyz")[1]["problems"]  # noqa: E731
    (problem,) = eventually("it has looked", lambda: [p for p in seen() if "yet" not in p["message"]])
    assert problem["error"] == "nothing_to_watch"
    assert "lacks" not in problem
    assert "has not started" in problem["hint"]


def procs(*pairs: tuple[int, int]) -> list[Proc]:
    return [Proc(ProcessKey(pid, 1), ppid) for pid, ppid in pairs]


def test_what_started_a_sidecar_and_what_it_started_are_no_others() -> None:
    assert sees_only_itself(procs((1, 0), (5, 1), (6, 5)), 5)
    assert sees_only_itself(procs((1, 0)), 1)
    assert not sees_only_itself(procs((1, 0), (5, 1), (7, 1)), 5)
    assert not sees_only_itself(procs((1, 0), (5, 0)), 5), "the pause container"


MINE = PtraceRights(uid=OURS, gid=OURS, has_sys_ptrace=False, has_kill=False, yama=None)
THEIRS = TargetIdentity(uids=frozenset({OURS}), gids=frozenset({OURS}))


def rights(**changes: object) -> PtraceRights:
    return replace(MINE, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mine", "theirs", "lacks"),
    [
        (rights(), TargetIdentity(tracer=9), MissingPermission.TRACED),
        (rights(yama=3, has_sys_ptrace=True), THEIRS, MissingPermission.YAMA_OFF),
        (rights(yama=1), THEIRS, MissingPermission.YAMA),
        (rights(yama=2), THEIRS, MissingPermission.YAMA),
        (rights(has_sys_ptrace=True), THEIRS, MissingPermission.SECURITY_MODULE),
        (rights(), THEIRS, MissingPermission.SECURITY_MODULE),
        (rights(blocked_call="ptrace", has_sys_ptrace=True), THEIRS, MissingPermission.SECCOMP),
        (
            rights(has_file_capability=True, no_new_privs=True),
            TargetIdentity(frozenset({7})),
            MissingPermission.FILE_CAPABILITY,
        ),
    ],
)
def test_what_cannot_be_brought_about_on_any_machine_is_told_apart_too(
    mine: PtraceRights, theirs: TargetIdentity, lacks: MissingPermission
) -> None:
    assert find_missing_permission(mine, theirs) is lacks


def test_a_file_capability_that_was_not_taken_on_says_why() -> None:
    mine = rights(has_file_capability=True, no_new_privs=True)
    error = make_denied_error(5, mine, TargetIdentity(frozenset({7})))
    assert error.reason is Reason.PTRACE_DENIED
    assert "allowPrivilegeEscalation: false" in error.hint
    assert "or run it as user 7, without any" in error.hint
    assert error.message == "not allowed to read the memory of process 5, which runs as user 7"


@pytest.mark.parametrize("lack", MissingPermission)
def test_every_lack_has_a_hint_and_a_line_in_the_manual(lack: MissingPermission) -> None:
    hint = format_hint(lack, MINE, THEIRS)
    assert hint.endswith(".")
    assert "{" not in hint
    assert f"|`{lack}`|" in PAGE


def test_every_word_of_readiness_has_a_section_in_the_manual() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert {word.value for word in READINESS_REASONS} <= set(re.findall(r"^### `(\w+)`$", text, re.MULTILINE))


def test_every_problem_that_is_put_up_has_a_word_of_readiness() -> None:
    said = set()
    for module in (ROOT / "sidecar" / "sidelight_sidecar").rglob("*.py"):
        said |= set(re.findall(r"HealthIssue\(\s*Reason\.(\w+)", module.read_text()))
        if module.name in (
            "session_handle.py",
            "native_sampler.py",
            "permissions.py",
            "pyspy_output.py",
            "sampler_registry.py",
        ):
            said |= set(re.findall(r"Reason\.([A-Z_]+)", module.read_text()))
    assert {Reason[name] for name in said} <= set(READINESS_REASONS)


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert read_target_identity(2**22 + 5) == TargetIdentity()


def test_pypy_is_said_to_be_not_supported(start_sidecar: StartSidecar, tmp_path: Path) -> None:
    """It is known by its name, which any program may have."""
    shutil.copy("/bin/sleep", tmp_path / "pypy3.9")
    with running(tmp_path / "target.log", str(tmp_path / "pypy3.9"), "60") as target:
        sidecar = start_sidecar("--pid", str(target.pid))
        said = f"process {target.pid} runs PyPy, which is not supported"
        eventually("readiness says so", lambda: said in str(sidecar.get("/readyz")[1]))
        assert "Run the service on CPython" in str(sidecar.get("/readyz")[1])
