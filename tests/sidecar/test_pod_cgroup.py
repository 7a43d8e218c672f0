"""The pod and the container of a process, for all names that drivers and runtimes give."""

import pytest

from sidelight_sidecar.discovery.pod_cgroup import PodContainer, parse_pod_container

UID = "0b6f2a9e-6c1d-4d0a-9c3e-5a7f1e2d3c4b"
ESCAPED = UID.replace("-", "_")
STATIC = "d3a1f0c2b4e5968778695a4b3c2d1e0f"
ID = "4c0ffee" * 9 + "a"
OTHER_UID = "11111111-2222-3333-4444-555555555555"
OTHER_ID = "ab" * 32
EXPECTED = PodContainer(UID, ID)
SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice"


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods/besteffort/pod{UID}/{ID}",
        f"/kubepods/pod{UID}/{ID}",
        f"/sidelight-1a2b3/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods/burstable/pod{UID}/crio-{ID}",
        f"{SLICE}/cri-containerd-{ID}.scope",
        f"{SLICE}/crio-{ID}.scope",
        f"{SLICE}/crio-{ID}.scope/container",
        f"{SLICE}/docker-{ID}.scope",
        f"/kubepods.slice/kubepods-pod{ESCAPED}.slice/cri-containerd-{ID}.scope",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{ESCAPED}.slice/cri-containerd-{ID}.scope",
        f"/system.slice/containerd.service/kubepods-burstable-pod{ESCAPED}.slice:cri-containerd:{ID}",
        f"/../../burstable/pod{UID}/{ID}",
        f"/../../kubepods-burstable-pod{ESCAPED}.slice/cri-containerd-{ID}.scope",
        f"{SLICE}/cri-containerd-{ID}.scope/system.slice/uwsgi.service",
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_container_is_found_in_every_form_of_cgroup_path(path: str, version: int) -> None:
    lines = (
        f"0::{path}\n"
        if version == 2
        else f"12:pids:{path}\n4:cpu,cpuacct:{path}\n1:name=systemd:{path}\n0::/\n"
    )
    assert parse_pod_container(lines) == EXPECTED


def test_a_static_pod_has_a_hash_instead_of_a_uid() -> None:
    assert parse_pod_container(f"0::/kubepods/pod{STATIC}/{ID}\n") == PodContainer(STATIC, ID)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/user.slice/user-1000.slice/session-2.scope",
        "/system.slice/containerd.service",
        f"/docker/{ID}",
        f"/kubepods/burstable/pod{UID}",
        f"{SLICE}/crio-conmon-{ID}.scope",
        f"/kubepods/burstable/pod{UID}/crio-conmon-{ID}",
        f"/kubepods/burstable/pod{UID[:-1]}/{ID}",
        f"/kubepods/burstable/pod{UID}/{ID[:-1]}",
        f"/kubepods/burstable/xpod{UID}/{ID}",
        f"/../{ID}",
    ],
)
def test_a_process_of_the_host_or_of_a_runtime_belongs_to_no_container(path: str) -> None:
    assert parse_pod_container(f"0::{path}\n") is None


@pytest.mark.parametrize("own", [f"/kubepods/burstable/pod{UID}/{ID}", f"{SLICE}/cri-containerd-{ID}.scope"])
def test_a_container_cannot_pass_for_one_of_another_pod(own: str) -> None:
    child = f"{own}/kubepods/pod{OTHER_UID}/{OTHER_ID}"
    assert parse_pod_container(f"0::{child}\n") == EXPECTED


def test_controllers_that_name_different_containers_name_none() -> None:
    lines = f"3:cpu:/kubepods/pod{UID}/{ID}\n2:memory:/kubepods/pod{OTHER_UID}/{OTHER_ID}\n"
    assert parse_pod_container(lines) is None


def test_text_that_is_no_cgroup_file_names_none() -> None:
    assert parse_pod_container("") is None
    assert parse_pod_container(f"\n::\npod{UID}\x00/\n") is None
