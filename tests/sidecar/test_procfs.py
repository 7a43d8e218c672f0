from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sidelight_sidecar.discovery.processes import ProcessFilter, select_processes
from sidelight_sidecar.discovery.procfs import (
    UNKNOWN_VERSION,
    ProcFs,
    find_libpython_version,
    parse_interpreter_version,
    parse_stat,
)
from tests.processes import eventually, running
from tests.sidecar.conftest import Start

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_python_process_is_recognised_with_its_version(start: Start, procfs: ProcFs) -> None:
    proc = procfs.read_process(start("spin").pid)
    assert proc is not None
    assert proc.python_version in (VERSION, UNKNOWN_VERSION)
    assert proc.command_line[1].endswith("spin.py")
    assert not proc.is_nested


def test_a_process_that_only_names_python_is_not_one(tmp_path: Path, procfs: ProcFs) -> None:
    with running(tmp_path / "log", "tail", "-f", "/dev/null", "--pid=1", "--", "/python3.11") as tail:
        eventually("tail runs", lambda: procfs.read_process(tail.pid) or None)
        proc = ProcFs().read_process(tail.pid)
        assert proc is not None
        assert proc.python_version is None


def test_an_embedded_interpreter_is_recognised_by_its_mapped_libpython(tmp_path: Path) -> None:
    """A C program under another name that has Python inside, as uwsgi has."""
    compiler = shutil.which("cc")
    library = Path(sysconfig.get_config_var("LIBDIR") or "") / str(sysconfig.get_config_var("LDLIBRARY"))
    assert compiler is not None, "this test needs a C compiler: run `make tools`"
    shared = library.suffix != ".a" and library.exists()
    assert shared, "this test needs a shared libpython: run `make tools`"
    source = tmp_path / "embed.c"
    source.write_text(
        "#include <Python.h>\nint main(void) { Py_Initialize(); return PyRun_SimpleString("
        '"import time\\nprint(\\"ready\\", flush=True)\\nwhile True: time.sleep(0.01)"); }\n'
    )
    include = sysconfig.get_path("include")
    binary = tmp_path / "webserver"
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, str(source), f"-I{include}", "-o", str(binary), *link], check=True)
    home = {"PYTHONHOME": sys.base_prefix}
    with running(tmp_path / "log", str(binary), env=home) as embedded:
        eventually("it runs Python", lambda: "ready" in embedded.said())
        proc = ProcFs().read_process(embedded.pid)
        assert proc is not None
        assert proc.python_version == VERSION


def test_a_parent_of_the_same_executable_is_python_once_its_child_is(tmp_path: Path) -> None:
    """As uWSGI with an interpreter linked in and `lazy-apps`: only its workers map extension modules."""
    compiler = shutil.which("cc")
    assert compiler is not None, "this test needs a C compiler: run `make tools`"
    source, binary = tmp_path / "master.c", tmp_path / "webserver"
    source.write_text(
        "#include <fcntl.h>\n#include <signal.h>\n#include <sys/mman.h>\n#include <sys/prctl.h>\n"
        "#include <unistd.h>\n"
        "int main(int count, char **words) {\n"
        "  prctl(PR_SET_PDEATHSIG, SIGKILL);\n"
        "  if (fork() == 0) {\n"
        "    prctl(PR_SET_PDEATHSIG, SIGKILL);\n"
        "    mmap(0, 4096, PROT_READ, MAP_PRIVATE, open(words[1], O_RDONLY), 0);\n"
        "  }\n  pause();\n}\n"
    )
    subprocess.run([compiler, str(source), "-o", str(binary)], check=True)
    module = tmp_path / "_json.cpython-312-x86_64-linux-gnu.so"
    module.write_bytes(bytes(4096))
    procfs = ProcFs()
    with running(tmp_path / "log", "sh", "-c", f"{binary} {module} & wait") as shell:

        def versions() -> dict[str, list[str | None]]:
            found: dict[str, list[str | None]] = {}
            for proc in procfs.list_processes():
                name = proc.executable.rpartition("/")[2]
                if str(tmp_path) in proc.executable or proc.pid == shell.pid:
                    found.setdefault(name, []).append(proc.python_version)
            return found

        eventually("both are Python", lambda: versions().get("webserver") == ["3.12", "3.12"])
        assert [found for name, found in versions().items() if name != "webserver"] == [[None]]


def test_a_process_that_loads_python_later_is_found_then(tmp_path: Path, procfs: ProcFs) -> None:
    """The shell becomes Python by exec: the same pid and start time, another program."""
    script = f"read -r line < {tmp_path}/go; exec {sys.executable} -c 'import time; time.sleep(60)'"
    os.mkfifo(tmp_path / "go")
    with running(tmp_path / "log", "sh", "-c", script) as shell:
        proc = eventually("the shell runs", lambda: procfs.read_process(shell.pid))
        assert proc.python_version is None
        (tmp_path / "go").write_text("go\n")

        def is_python() -> bool:
            return any(p.pid == shell.pid and p.python_version is not None for p in procfs.list_processes())

        eventually("it is Python", is_python)


def test_a_process_that_ends_is_no_longer_listed(start: Start, procfs: ProcFs) -> None:
    target = start("spin")
    key = {p.pid: p.key for p in procfs.list_processes()}[target.pid]
    target.end()
    assert key not in select_processes(
        procfs.list_processes(), ProcessFilter(match_all=True), own_pid=os.getpid()
    )
    assert procfs.read_stat(target.pid) is None
    assert procfs.read_thread_states(target.pid) == []


def test_a_stat_line_is_read_even_when_the_name_tries_to_confuse() -> None:
    stat = parse_stat("7 (a) b) R) S 3 7 7 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 5 0 987 1 1\n")
    assert (stat.name, stat.state, stat.ppid, stat.threads, stat.start_ticks) == ("a) b) R", "S", 3, 5, 987)
    assert stat.cpu_ns == 33 * 10**9 // os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("executable", "version"),
    [
        ("/usr/bin/python3.11", "3.11"),
        ("/usr/bin/python3", "3"),
        ("/opt/python", UNKNOWN_VERSION),
        ("/opt/python3.13t", "3.13"),
        ("/usr/bin/pypy3.9", "3.9"),
        ("/usr/bin/python3.11 (deleted)", "3.11"),
        ("/usr/bin/python3.11-config", None),
        ("/usr/bin/ipython3", None),
        ("/usr/sbin/uwsgi", None),
    ],
)
def test_an_interpreter_is_known_by_its_name(executable: str, version: str | None) -> None:
    assert parse_interpreter_version(executable) == version


def test_a_fork_keeps_its_parents_stack_and_exec_gives_another(start: Start, procfs: ProcFs) -> None:
    parent = start("forks")
    again = start("forks")

    def forked() -> list[int]:
        return [proc.stack_start for proc in procfs.list_processes() if proc.ppid == parent.pid]

    (child,) = eventually("it forks", forked)
    stacks = {
        target.pid: (procfs.read_stat(target.pid) or parse_stat("")).stack_start for target in (parent, again)
    }
    assert child == stacks[parent.pid] != 0
    assert stacks[again.pid] not in (0, child)


def test_a_process_is_fresh_for_a_tenth_of_a_second(start: Start, procfs: ProcFs) -> None:
    target = start("spin")
    (key,) = (proc.key for proc in procfs.list_processes() if proc.pid == target.pid)
    began_ns = key.start_ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    seen = {}
    for after_ms in (-500, 0, 50, 150):
        proc = ProcFs(now_ns=lambda: began_ns + after_ms * 10**6).read_process(target.pid)  # noqa: B023
        assert proc is not None
        seen[after_ms] = proc.is_starting
    # Where /proc and the clock do not count from the same moment, nothing is kept waiting.
    assert seen == {-500: False, 0: True, 50: True, 150: False}


def test_an_interpreter_that_is_linked_in_is_known_by_the_extension_modules_it_maps() -> None:
    lib = "7f0-7f1 r-xp 0 08:01 1 /opt/py/lib/python3.12/lib-dynload/_json.cpython-312-x86_64-linux-gnu.so\n"
    assert find_libpython_version(lib) == "3.12"
    assert find_libpython_version(lib.replace("cpython-312-", "cpython-38-")) == "3.8"
    assert find_libpython_version("7f0-7f1 r-xp 0 08:01 1 /opt/app/_native.abi3.so\n") is None


def test_a_libpython_is_found_among_mappings() -> None:
    line = "7f0-7f1 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0\n"
    assert find_libpython_version(line) == "3.11"
    assert find_libpython_version(line.replace("3.11.so", "3.7m.so")) == "3.7"
    assert find_libpython_version("7f0-7f1 r-xp 0 08:01 1 /usr/lib/libc.so.6\n") is None
