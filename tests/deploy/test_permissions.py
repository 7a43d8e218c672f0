"""The capabilities that the chart gives are what it takes to sample, no more and no less."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

RENDERED = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "rendered"

# A process of another user, whose /proc files belong to that user as they do in a pod.
TARGET = """
import ctypes, os
os.setgid(10001)
os.setuid(10001)
ctypes.CDLL(None).prctl(4, 1)
print("ready", flush=True)
while True:
    sum(range(10_000))
"""
# As in a pod with `hostUsers: false`: only the process sees its users, processes and the files of its Python.
IN_NAMESPACES = f"""
mount -t tmpfs own /mnt && mkdir /mnt/python && mount --bind {sys.base_prefix} /mnt/python
exec unshare --user --keep-caps --mount --pid --fork --kill-child sh -c '
    echo in; read -r mapped; export PYTHONHOME=/mnt/python LD_LIBRARY_PATH=/mnt/python/lib
    exec setpriv --reuid=0 --regid=0 --clear-groups /mnt/python/bin/python3 -c "
print(\\"ready\\", flush=True)
while True: sum(range(10_000))"'
"""
SAMPLE = """
import sys, time, sidelight_native
from sidelight_sidecar.discovery.procfs import ProcFs
assert ProcFs().read_process(int(sys.argv[1])).python_version
session = sidelight_native.Engine().attach(int(sys.argv[1]), rate_hz=100.0)
deadline = time.monotonic() + 90
while not session.take().counts and time.monotonic() < deadline:
    time.sleep(0.05)
print("sampled" if session.ended is None and time.monotonic() < deadline else session.ended)
"""


each_sampler = pytest.mark.parametrize(("mode", "container"), [("sidecar", "sidelight"), ("agent", "agent")])


@pytest.fixture
def target() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take capabilities away from root")
@each_sampler
def test_the_charts_capabilities_are_enough_to_sample_another_users_process(target, mode, container):
    done = _sample(target, _capabilities(mode, container))
    assert done.stdout == "sampled\n", done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can map the users of a namespace")
def test_the_agents_capabilities_are_enough_for_a_process_in_a_user_namespace():
    begin = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", IN_NAMESPACES]
    pipe = subprocess.PIPE
    with subprocess.Popen(begin, stdin=pipe, stdout=pipe, text=True) as parent:
        try:
            assert parent.stdin is not None
            assert parent.stdout is not None
            assert parent.stdout.readline() == "in\n"
            for kind in ("uid", "gid"):
                Path(f"/proc/{parent.pid}/{kind}_map").write_text("0 100000 65536")
            parent.stdin.write("mapped\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "ready\n"
            [pid] = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            assert Path(f"/proc/{pid}").stat().st_uid == 100000
            done = _sample(int(pid), _capabilities("agent", "agent"))
            assert done.stdout == "sampled\n", done.stderr
        finally:
            # `--kill-child` does not outlast a change of user.
            for child in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            parent.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take capabilities away from root")
@each_sampler
def test_without_sys_ptrace_another_users_process_is_refused(target, mode, container):
    done = _sample(target, [name for name in _capabilities(mode, container) if name != "SYS_PTRACE"])
    assert done.returncode != 0
    assert "PermissionError" in done.stderr


def _capabilities(mode: str, name: str) -> list[str]:
    documents = yaml.safe_load_all((RENDERED / f"{mode}.yaml").read_text(encoding="utf-8"))
    pods = [
        one["spec"]["template"]["spec"] for one in documents if one["kind"] in ("Deployment", "DaemonSet")
    ]
    [sampler] = [container for pod in pods for container in pod["containers"] if container["name"] == name]
    return sampler["securityContext"]["capabilities"]["add"]


def _sample(pid: int, capabilities: list[str]) -> subprocess.CompletedProcess[str]:
    kept = ",".join(["-all", *(f"+{name.lower()}" for name in capabilities)])
    rights = ["setpriv", "--bounding-set", kept, "--inh-caps", "-all", "--no-new-privs"]
    command = [*rights, sys.executable, "-c", SAMPLE, str(pid)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
