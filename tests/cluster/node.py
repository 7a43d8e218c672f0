"""A node: a real kubelet, containerd and kube-proxy in a network namespace of their own, and a control plane.

The settings are those that such a machine needs: no systemd, perhaps no CAP_SYS_RESOURCE (so no negative OOM
scores), cgroups of either version, and no way out to an image registry.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from tests.cluster import images
from tests.cluster import place as places
from tests.cluster.api import Api
from tests.cluster.control import Where, program
from tests.cluster.control import start as start_control
from tests.cluster.pki import kubeconfig
from tests.cluster.place import Place
from tests.cluster.programs import ROOT, Programs, eventually, started_at

NODE = "node"
SHIM = "containerd-shim-runc-v2"
FOLDER = ROOT / ".tools" / "cluster"
NEEDED = ("containerd", "runc", "ip", "nsenter", "unshare", "nft", "conntrack", "buildah", "debootstrap")


class Node(Api):
    """The API of a cluster with a node, and the node."""

    def __init__(self, api: Api, place: Place, programs: Programs) -> None:
        super().__init__(api.url, api.authority, api.kubeconfig, program("kubectl"))
        self.place = place
        self.programs = programs

    def told(self) -> str:
        """What the pods and our containers in them say, for the message of a failure."""
        said = [self.try_kubectl("get", "pods", "-A", "-o", "wide").stdout]
        said.append(self.try_kubectl("get", "events", "-A", "--sort-by=.lastTimestamp").stdout[-4000:])
        for pod in self.get("/api/v1/pods")["items"]:
            at, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]:
                logs = ("logs", "-n", at, name, "-c", container["name"], "--tail=12")
                said.append(f"{at}/{name} {container['name']}:\n{self.try_kubectl(*logs).stdout[-3000:]}")
        return "\n".join(said)


def why_not() -> str:
    """Why this machine cannot have a node, in one sentence; empty when it can."""
    if os.geteuid() != 0:
        return "a node needs root"
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        return f"a node needs {', '.join(missing)}: run `make cluster-tools`"
    script = "mount --make-rprivate / && mount --make-rshared / && ip link add type veth"
    done = subprocess.run(["unshare", "-mn", "sh", "-c", script], capture_output=True, text=True, check=False)
    return f"no namespaces of its own on this machine: {done.stderr.strip()}" if done.returncode else ""


def start(folder: Path, wanted: Sequence[str] = images.ALL) -> Node:
    """Start a cluster with one node in a folder that `guarded` made, and wait until the node is ready."""
    archives = images.built(wanted)
    programs = Programs(folder)
    place = places.make(folder)
    where = Where(place.node, 6443, place.services, place.first_service, place.enter, nodes=True)
    _containerd(programs, place)
    api = start_control(programs, where)
    for archive in archives:
        _ctr(folder, "images", "import", archive)
    _kubelet(programs, place, api)
    _proxy(programs, place, api)
    interpreter = (*place.enter, "nice", "-n", "5", sys.executable, "-m", "tests.cluster.dns")
    programs.start("dns", *interpreter, places.DNS, api.url, api.ca.parent)

    def ready() -> bool:
        for name in programs.names():
            programs.must_run(name)
        status, node = api.call("GET", f"/api/v1/nodes/{NODE}")
        conditions = node["status"].get("conditions", []) if status == 200 else []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    eventually("the node is ready", ready, 180, 0.2)
    return Node(api, place, programs)


def end(folder: Path) -> None:
    """End everything of a cluster and put the machine back; may be called again, and after a crash."""
    if not folder.exists():
        return
    programs = Programs(folder)
    programs.end("kubelet", 0)
    programs.end_all()
    _end_shims(folder)
    if place := places.of(folder):
        _end_pods(place)
    places.unmake(folder)
    shutil.rmtree(folder)


def _end_pods(place: Place) -> None:
    def gone() -> bool:
        for pid in places.processes(place):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not places.processes(place)

    eventually("the pods are gone", gone, 30)


def _end_shims(folder: Path) -> None:
    """The shims of this containerd alone: they outlive it, and their command lines name its socket."""
    socket = str(folder / "containerd.sock")
    shims = [pid for pid, words in commands(SHIM) if socket in words]
    for pid in shims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually("the shims are gone", lambda: not any(started_at(pid) for pid in shims))


def commands(program: str) -> Iterator[tuple[int, list[str]]]:
    """The processes of a program on this machine, with their command lines."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith(program):
            yield int(path.parent.name), words


def _ctr(folder: Path, *arguments: str | Path) -> str:
    argv = ["ctr", "--address", folder / "containerd.sock", "--namespace", "k8s.io", *arguments]
    done = subprocess.run([str(part) for part in argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ctr {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def _containerd(programs: Programs, place: Place) -> None:
    folder = programs.folder
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": place.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(folder / "addresses"),
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    # Users of a pod's own pass through this folder; containerd would make it for root alone.
    for name in ("cni", "containerd"):
        (folder / name).mkdir()
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
    (folder / "containerd.toml").write_text(f"""\
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
oom_score = 0
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
""")
    # Everything that is mounted for pods is in one mount namespace, where / is shared, and goes with it.
    script = 'mount --make-rprivate / && mount --make-rshared / && exec nice -n 5 containerd -c "$0"'
    unshared = ("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script)
    programs.start("containerd", *place.enter, *unshared, folder / "containerd.toml")

    def answers() -> bool:
        programs.must_run("containerd")
        argv = ["ctr", "--address", str(folder / "containerd.sock"), "version"]
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0

    eventually("containerd answers", answers)


def _user(api: Api, name: str, user: str, group: str = "") -> Path:
    certificate = api.authority.client(name, user, group)
    keys = {"client-certificate": str(certificate), "client-key": str(certificate.with_suffix(".key"))}
    return kubeconfig(api.ca.parent / f"{name}.kubeconfig", api.url, api.ca, keys)


def _kubelet(programs: Programs, place: Place, api: Api) -> None:
    folder = programs.folder
    served = api.authority.server("kubelet-server", [NODE, place.node])
    (folder / "resolv.conf").write_text(f"nameserver {places.DNS}\n")
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.node,
        "authentication": {
            "x509": {"clientCAFile": str(api.ca)},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(served),
        "tlsPrivateKeyFile": str(served.with_suffix(".key")),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "clusterDNS": [places.DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "podLogsDir": str(folder / "podlogs"),
        "volumePluginDir": str(folder / "plugins"),
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "10s",
    }
    (folder / "podlogs").mkdir()
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(settings))
    config = _user(api, "node", f"system:node:{NODE}", "system:nodes")
    programs.start(
        "kubelet",
        *(
            "nsenter",
            f"--net={places.NETNS / place.name}",
            f"--mount=/proc/{programs.pid('containerd')}/ns/mnt",
        ),
        *("nice", "-n", "5", program("kubelet"), f"--config={folder}/kubelet.yaml", f"--kubeconfig={config}"),
        *(f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/kubelet/pki"),
        *(f"--hostname-override={NODE}", f"--node-ip={place.node}"),
    )


def _proxy(programs: Programs, place: Place, api: Api) -> None:
    role = ("--clusterrole=system:node-proxier", "--user=system:kube-proxy")
    api.kubectl("create", "clusterrolebinding", "node-proxier", *role)
    settings = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(_user(api, "proxy", "system:kube-proxy"))},
        "clusterCIDR": place.pods,
        "hostnameOverride": NODE,
        "bindAddress": place.node,
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "oomScoreAdj": 0,
    }
    config = programs.folder / "proxy.yaml"
    config.write_text(yaml.safe_dump(settings))
    programs.start("kube-proxy", *place.enter, "nice", "-n", "5", program("kube-proxy"), f"--config={config}")


def sweep() -> None:
    """End the clusters of tests that died together with their guard."""
    for folder in FOLDER.glob("tests-*"):
        _, pid, since = folder.name.split("-")
        if started_at(int(pid)) != since:
            end(folder)


def folder_of_tests() -> Path:
    """Where the cluster of this process is: named after it, so that another can tell whether it lives."""
    return FOLDER / f"tests-{os.getpid()}-{started_at(os.getpid())}"


def main(argv: list[str]) -> None:
    """`up` and `down` of a cluster that stays, and what a guard runs: ends FOLDER when its input does."""
    by_hand = FOLDER / "by-hand"
    if argv == ["up"]:
        if (reason := why_not()) != "":
            raise SystemExit(f"make: {reason}")
        sweep()
        end(by_hand)
        by_hand.mkdir(parents=True)
        begun = time.monotonic()
        try:
            node = start(by_hand)
        except BaseException:
            end(by_hand)
            raise
        print(f"the node is ready after {time.monotonic() - begun:.0f} s; `make cluster-down` ends it")
        print(f"export KUBECONFIG={node.kubeconfig} PATH={program('kubectl').parent}:$PATH")
        print(f"images: {images.COLLECTOR} {images.SIDECAR} {images.DEMO}")
        print(f"pods reach this machine at {node.place.host}")
    elif argv == ["down"]:
        sweep()
        end(by_hand)
    else:
        [folder] = argv
        sys.stdin.buffer.read()
        end(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
