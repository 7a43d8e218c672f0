"""The images of the cluster: ours from the Dockerfile, a demo service's and a pause image, from no registry.

What the Dockerfile starts from is made of Debian's packages (debootstrap) and this machine's Rust and Node.
What is made stays in `~/.cache/sidelight/images` for every checkout; an image is built anew when a file that
it is made of has changed. The images hold this machine's CA bundle: they are for tests alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.cluster.programs import ROOT

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sidelight" / "images"
KEEP_ARCHIVES, KEEP_LAYERS = 8, 200
"""How many archives of an image stay, of up to 500 MB, and how many layers: about 10 GB."""

CA = Path("/etc/ssl/certs/ca-certificates.crt")
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
BUILD_PACKAGES = ("gcc", "libc6-dev")
"""What the images need of Debian, and what the stages that compile need beside it."""

SIDECAR, COLLECTOR = "localhost/sidelight-sidecar:test", "localhost/sidelight-collector:test"
DEMO, PAUSE = "localhost/sidelight-demo:test", "localhost/pause:test"
ALL = (PAUSE, DEMO, SIDECAR, COLLECTOR)
BASE, BUILD_BASE = "localhost/base:test", "localhost/build-base:test"
IGNORED = {"node_modules", "dist", "target", "test", "ui", "__pycache__"}


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stamp(paths: Iterable[Path], *words: str) -> str:
    """A hash of the files below these paths, and of words."""
    seen = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        found = path.rglob("*") if path.is_dir() else [path]
        for file in sorted(f for f in found if f.is_file() and not IGNORED.intersection(f.parts)):
            seen.update(f"{file.relative_to(ROOT)}\0{file.stat().st_mode & 0o111:o}\0".encode())
            seen.update(hashlib.sha256(file.read_bytes()).digest())
    return seen.hexdigest()[:16]


def buildah(*arguments: str | Path, capture: bool = False) -> str:
    """Run buildah over a storage of our own; its output goes to `build.log` beside it."""
    storage = ("--root", CACHE / "storage", "--runroot", CACHE / "run", "--storage-driver", "overlay")
    argv = [str(part) for part in ("buildah", *storage, *arguments)]
    with (CACHE / "build.log").open("ab") as output:
        output.write(f"$ {' '.join(argv)}\n".encode())
        output.flush()
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else output,
            stderr=output,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            check=False,
        )
    if done.returncode:
        tail = (CACHE / "build.log").read_text(errors="replace").splitlines()[-25:]
        raise RuntimeError("buildah failed:\n" + "\n".join(tail))
    return (done.stdout or b"").decode().strip()


def from_folder(image: str, folder: Path, *config: str) -> None:
    """An image of one layer."""
    container = buildah("from", "scratch", capture=True)
    try:
        buildah("add", "--quiet", container, folder, "/")
        if config:
            buildah("config", *config, container)
        buildah("commit", "--quiet", container, image)
    finally:
        buildah("rm", container)


def base() -> None:
    """A Debian with Python; and one with a compiler too, where a build finds this machine's Rust and Node."""
    root = CACHE / "root"
    shutil.rmtree(root, ignore_errors=True)
    with (CACHE / "build.log").open("ab") as output:
        include = f"--include={','.join(PACKAGES)}"
        argv = ["debootstrap", "--variant=minbase", include, SUITE, str(root)]
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True)
    for path in ("var/lib/apt/lists", "var/cache/apt/archives", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(root / path)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    shutil.copy(CA, root / str(CA)[1:])
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    path = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        from_folder(BASE, root, "--env", f"PATH={path}", "--env", "LANG=C.UTF-8")
    finally:
        shutil.rmtree(root)
    container = buildah("from", "--pull-never", BASE, capture=True)
    npm = r'#!/bin/sh\nexec node /opt/npm/bin/npm-cli.js "$@"\n'
    packages = " ".join(BUILD_PACKAGES)
    script = f"""
        apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends {packages}
        printf '{npm}' > /usr/local/bin/npm
        chmod +x /usr/local/bin/npm"""
    try:
        buildah("run", container, "--", "sh", "-ec", script)
        buildah("config", "--env", f"PATH={path}:/opt/rust/bin:/opt/node/bin", container)
        buildah("commit", "--quiet", container, BUILD_BASE)
    finally:
        buildah("rm", container)


def toolchains() -> list[str]:
    """This machine's Rust, Node and settings of their package managers, as volumes of a build."""
    rust = subprocess.run(
        ["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    node, npm = (Path(shutil.which(name) or f"/missing/{name}").resolve() for name in ("node", "npm"))
    places = {
        Path(rust.stdout.strip()): "/opt/rust",
        node.parent: "/opt/node/bin",
        npm.parents[1]: "/opt/npm",
        Path("/etc/pip.conf"): "/etc/pip.conf",
        Path.home() / ".npmrc": "/root/.npmrc",
        Path.home() / ".cargo" / "config.toml": "/root/.cargo/config.toml",
    }
    return [f"--volume={path}:{inside}:ro" for path, inside in places.items() if path.exists()]


def ours(target: str, image: str) -> None:
    """One of the images of the Dockerfile."""
    bases = [f"--build-arg={name}_IMAGE={BUILD_BASE}" for name in ("RUST", "NODE")]
    bases.append(f"--build-arg=PYTHON_IMAGE={BASE}")
    secret = f"--secret=id=ca,src={CA}"
    buildah("build", "--layers", *bases, secret, *toolchains(), "--target", target, "--tag", image, ROOT)


def demo() -> None:
    """The demo's services, in an image that has nothing of ours."""
    arguments = [f"--build-arg=PYTHON_IMAGE={BASE}", f"--secret=id=ca,src={CA}", *toolchains()]
    buildah(
        "build", "--layers", *arguments, "--file", HERE / "demo.Dockerfile", "--tag", DEMO, ROOT / "examples"
    )


def pause() -> None:
    """What holds a pod's namespaces: Debian's static catatonit."""
    with_program = CACHE / "pause"
    shutil.rmtree(with_program, ignore_errors=True)
    with_program.mkdir()
    shutil.copy("/usr/bin/catatonit", with_program / "pause")
    from_folder(PAUSE, with_program, "--entrypoint", '["/pause","-P"]')
    shutil.rmtree(with_program)


def built(names: Sequence[str] = ALL) -> list[Path]:
    """Archives of images, built where they are missing or something they are made of has changed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _built(names)


def _built(names: Sequence[str]) -> list[Path]:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    context = [ROOT / line[1:] for line in ignore if line.startswith("!")]
    bottom = stamp([], SUITE, *PACKAGES, "/", *BUILD_PACKAGES)
    source = stamp([ROOT / "Dockerfile", *context], bottom)
    wanted = {
        PAUSE: (stamp([], "1"), pause),
        DEMO: (stamp([HERE / "demo.Dockerfile", ROOT / "examples"], bottom), demo),
        SIDECAR: (source, lambda: ours("sidecar", SIDECAR)),
        COLLECTOR: (source, lambda: ours("collector", COLLECTOR)),
    }
    archives = []
    for image, (key, make) in ((name, wanted[name]) for name in names):
        name = image.rpartition("/")[2].partition(":")[0]
        archive = CACHE / f"{name}-{key}.tar"
        if not archive.exists():
            if image != PAUSE:
                bottom_stamp = CACHE / f"base-{bottom}"
                if not bottom_stamp.exists():
                    log("building the base image")
                    base()
                    bottom_stamp.touch()
            log(f"building {image}")
            make()
            # Layers of earlier builds make the next one faster; too many fill the disk.
            if len(buildah("images", "--all", "--quiet", capture=True).splitlines()) > KEEP_LAYERS:
                buildah("rm", "--all")
                buildah("rmi", "--prune")
            for old in sorted(CACHE.glob(f"{name}-*.tar"), key=lambda one: one.stat().st_mtime)[
                :-KEEP_ARCHIVES
            ]:
                old.unlink()
            unfinished = archive.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            buildah("push", "--quiet", image, f"docker-archive:{unfinished}:{image}")
            unfinished.rename(archive)
        os.utime(archive)
        archives.append(archive)
    return archives


def main(argv: Sequence[str]) -> None:
    for archive in built():
        print(archive)


if __name__ == "__main__":
    main(sys.argv[1:])
