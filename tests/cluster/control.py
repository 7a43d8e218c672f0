"""A control plane: etcd, API server, controller manager and, where there are nodes, a scheduler."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.api import Api
from tests.cluster.pki import Authority, kubeconfig, signing_key
from tests.cluster.programs import ROOT, Programs, eventually
from tests.processes import free_port

ISSUER = "https://kubernetes.default.svc"


def version() -> str:
    """The version of Kubernetes that is built: the one in the Go module beside this file."""
    module = (Path(__file__).parent / "kubernetes" / "go.mod").read_text()
    found = re.search(r"\bk8s\.io/kubernetes (v\S+)", module)
    assert found, "tests/cluster/kubernetes/go.mod requires no k8s.io/kubernetes"
    return found[1]


def program(name: str) -> Path:
    """A program of the cluster; fails with what to do when it is missing."""
    path = ROOT / ".tools" / f"kubernetes-{version()}" / "bin" / name
    found = str(path) if path.is_file() else shutil.which(name)
    assert found, f"{name} is missing: run `make cluster-tools`"
    return Path(found)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a control plane listens: on loopback, or where its nodes and this machine both reach it."""

    host: str = "127.0.0.1"
    port: int = 0
    services: str = "10.96.0.0/16"
    first_service: str = "10.96.0.1"
    enter: tuple[str, ...] = ()
    nodes: bool = False


def start(programs: Programs, where: Where) -> Api:
    """Start a control plane whose state is in the folder of `programs`, and wait until its API serves."""
    etcd_client, etcd_peer, secure, manager, scheduler = (free_port() for _ in range(5))
    port = where.port or secure
    url = f"https://{where.host}:{port}"
    folder, pki = programs.folder, programs.folder / "pki"
    authority = Authority(pki)
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    served = authority.server("apiserver", [*names, "127.0.0.1", where.host, where.first_service])
    kubelet_client = authority.client("apiserver-kubelet", "kube-apiserver", "system:masters")
    private, public = signing_key(pki)

    def config(name: str, user: str, group: str = "") -> Path:
        certificate = authority.client(name, user, group)
        keys = {"client-certificate": str(certificate), "client-key": str(certificate.with_suffix(".key"))}
        return kubeconfig(pki / f"{name}.kubeconfig", url, authority.certificate, keys)

    admin = config("admin", "admin", "system:masters")
    etcd = f"http://127.0.0.1:{etcd_client}"
    peer = f"http://127.0.0.1:{etcd_peer}"
    programs.start(
        "etcd",
        *where.enter,
        *("nice", "-n", "5", program("etcd"), "--data-dir", folder / "etcd", "--unsafe-no-fsync"),
        *("--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--log-level", "warn"),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"default={peer}"),
    )
    programs.start(
        "kube-apiserver",
        *where.enter,
        *("nice", "-n", "5", program("kube-apiserver"), f"--etcd-servers={etcd}"),
        *(f"--bind-address={where.host}", f"--advertise-address={where.host}", f"--secure-port={port}"),
        f"--endpoint-reconciler-type={'lease' if where.nodes else 'none'}",
        *(f"--tls-cert-file={served}", f"--tls-private-key-file={served.with_suffix('.key')}"),
        *(f"--client-ca-file={authority.certificate}", f"--cert-dir={folder}"),
        *(f"--service-account-issuer={ISSUER}", f"--service-account-key-file={public}"),
        *(f"--service-account-signing-key-file={private}", f"--service-cluster-ip-range={where.services}"),
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
        *("--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP"),
        f"--kubelet-client-certificate={kubelet_client}",
        f"--kubelet-client-key={kubelet_client.with_suffix('.key')}",
        f"--kubelet-certificate-authority={authority.certificate}",
    )
    api = Api(url, authority, admin, program("kubectl"))

    def ready() -> bool:
        programs.must_run("etcd")
        programs.must_run("kube-apiserver")
        return api.ready()

    eventually("the API server is ready", ready, 120)
    programs.start(
        "kube-controller-manager",
        *where.enter,
        *("nice", "-n", "5", program("kube-controller-manager"), "--leader-elect=false"),
        *_configured(config("kcm", "system:kube-controller-manager")),
        *("--bind-address=127.0.0.1", f"--secure-port={manager}", f"--cert-dir={folder}"),
        *("--use-service-account-credentials", f"--service-account-private-key-file={private}"),
        *(f"--root-ca-file={authority.certificate}", "--allocate-node-cidrs=false"),
        f"--cluster-signing-cert-file={authority.certificate}",
        f"--cluster-signing-key-file={authority.certificate.with_suffix('.key')}",
    )
    if where.nodes:
        programs.start(
            "kube-scheduler",
            *where.enter,
            *("nice", "-n", "5", program("kube-scheduler"), "--leader-elect=false"),
            *_configured(config("scheduler", "system:kube-scheduler")),
            *("--bind-address=127.0.0.1", f"--secure-port={scheduler}", f"--cert-dir={folder}"),
        )

    def account() -> bool:
        programs.must_run("kube-controller-manager")
        return api.call("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

    eventually("the controller manager makes service accounts", account)
    return api


def _configured(path: Path) -> list[str]:
    return [
        f"--{flag}={path}" for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    ]
