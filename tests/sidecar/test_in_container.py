"""`--target-container`: of the processes of a pod, those of one container."""

import subprocess
import sys
from pathlib import Path

import pytest

from sidelight_sidecar.discovery.processes import Proc, ProcessFilter, ProcessKey, select_processes
from sidelight_sidecar.discovery.procfs import ProcFs, parse_container_name
from sidelight_sidecar.settings import parse_sidecar_settings

MOUNTS = """\
812 700 0:94 / / rw,relatime master:249 - overlay overlay rw,lowerdir=/var/lib/containerd/1/fs
815 812 0:97 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
838 812 254:1 /var/lib/kubelet/pods/6f1b-47/etc-hosts /etc/hosts rw,relatime - ext4 /dev/vda1 rw
839 812 254:1 /var/lib/kubelet/pods/6f1b-47/volumes/kubernetes.io~empty-dir/a /a rw - ext4 /dev/vda1 rw
{last_words}
"""


def mounts(root: str) -> str:
    return MOUNTS.replace("{last_words}", f"840 812 254:1 {root} /dev/termination-log rw - ext4 /dev/vda1 rw")


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("/var/lib/kubelet/pods/6f1b-47/containers/web/0d9c1f2a", "web"),
        ("/pods/6f1b-47/containers/web-2/0d9c1f2a", "web-2"),
        ("/@subvolume/kubelet/pods/6f1b-47/containers/web/0d9c1f2a//deleted", "web"),
        ("/home/pods/6f1b-47/containers/web/notes.txt", ""),
        ("/var/lib/docker/containers/4c5e/hostname", ""),
    ],
)
def test_the_mount_for_last_words_names_the_container(root, name):
    assert parse_container_name(mounts(root)) == name


def test_only_processes_of_the_container_are_watched_children_included():
    procs = [
        Proc(ProcessKey(7, 1), 1, python_version="3.12", executable="/usr/bin/python3.12", container="web"),
        Proc(ProcessKey(8, 1), 7, python_version="3.12", executable="/usr/bin/python3.12", container="web"),
        Proc(ProcessKey(9, 1), 1, python_version="3.12", executable="/usr/bin/python3.12", container="proxy"),
        Proc(ProcessKey(10, 1), 1, python_version="3.12", executable="/usr/bin/python3.12"),
    ]
    chosen = select_processes(procs, ProcessFilter(match_all=True, container="web"), own_pid=99)
    assert [key.pid for key in chosen] == [7, 8]
    assert len(select_processes(procs, ProcessFilter(match_all=True), own_pid=99)) == 4


def test_a_container_is_looked_up_only_where_it_is_asked_for(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as target:
        try:
            real, folder = Path(f"/proc/{target.pid}"), tmp_path / str(target.pid)
            folder.mkdir()
            for name in ("stat", "cmdline", "status", "maps"):
                (folder / name).symlink_to(real / name)
            (folder / "exe").symlink_to((real / "exe").readlink())
            (folder / "mountinfo").write_text(mounts("/pods/1/containers/web/0a"))
            [plain] = ProcFs(tmp_path).list_processes()
            [told] = ProcFs(tmp_path, read_containers=True).list_processes()
        finally:
            target.communicate(b"\n", timeout=60)
    assert (plain.container, told.container) == ("", "web")


def test_the_option_goes_with_each_way_of_choosing():
    given = ["--collector", "http://c", "--service", "s", "--target-container", "web"]
    for way in (["--all"], ["--match", "gunicorn"], ["--pid", "7"]):
        assert parse_sidecar_settings([*given, *way], {}).target_container == "web"
    assert (
        parse_sidecar_settings([*given[:4], "--all"], {"SIDELIGHT_TARGET_CONTAINER": "web"}).target_container
        == "web"
    )
