"""A Python that this Debian does not have, from a later Debian's packages, for tests only:

    python tests/interpreters/debian.py 3.14 --into ~/.pyenv/versions --cache .tools/debian

3.13t is built from a source package, which takes minutes: Debian packages no free-threaded Python.
Nothing of the machine's own system changes: the packages, their C library included, are unpacked beside
each other, and the interpreter is told (patchelf) to load from there. The mirror is the one that apt is set
up with here. It needs apt, dpkg-deb and patchelf (3.13t: apt, a C compiler and make), and no privilege.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# The release after the newest at the time of writing, by its code name: it has 3.14 and 3.15.
SUITE = "forky"
# The oldest with a Python that has a free-threaded build. Sources of a stable release stay where they are.
SOURCE_SUITE = "trixie"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def main(argv: list[str]) -> int:
    """Print the path of the interpreter; 0 when it is there, 1 and the reason when it cannot be had."""
    parser = argparse.ArgumentParser(description="Unpack a Python of a later Debian.")
    parser.add_argument("python", metavar="3.14")
    parser.add_argument("--into", type=Path, required=True, help="the folder of interpreters, by version")
    parser.add_argument("--cache", type=Path, required=True, help="where lists and packages are kept")
    options = parser.parse_args(argv)
    minor = options.python.removesuffix("t")
    there = sorted(options.into.glob(f"{minor}.*/bin/python{options.python}"))
    try:
        get = build if options.python.endswith("t") else install
        interpreter = there[-1] if there else get(options.python, options.into, options.cache.absolute())
    except (OSError, RuntimeError) as error:
        sys.stderr.write(f"python {options.python} cannot be had here: {error}\n")
        return 1
    sys.stdout.write(f"{interpreter}\n")
    return 0


def install(python: str, into: Path, cache: Path) -> Path:
    """Fetch, unpack, and move into place under its full version."""
    for tool in ("apt-get", "dpkg-deb", "patchelf"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"there is no {tool}")
    packages = fetch(python, debian_mirror(), cache)
    unpacked = cache / f"python{python}"
    shutil.rmtree(unpacked, ignore_errors=True)
    for package in packages:
        run("dpkg-deb", "-x", str(package), str(unpacked))
    prefix = unpacked / "usr"
    [loader] = prefix.glob("lib/*-linux-gnu*/ld-linux*.so.*")
    binary = prefix / "bin" / f"python{python}"
    for name in ("python3", "python"):
        (binary.parent / name).symlink_to(binary.name)
    version = full_version(loader, binary)
    target = into / version
    libraries = target / loader.parent.relative_to(prefix)
    # An rpath, not a runpath: it has to hold for the libraries of extension modules as well.
    run("patchelf", "--set-interpreter", str(libraries / loader.name), "--force-rpath",
        "--set-rpath", str(libraries), str(binary))  # fmt: skip
    settle(prefix, python, target)
    into.mkdir(parents=True, exist_ok=True)
    shutil.move(prefix, target)
    shutil.rmtree(unpacked)
    run(str(target / "bin" / binary.name), "-c", "import ctypes, sqlite3, ssl, venv, zlib")
    return target / "bin" / binary.name


def settle(prefix: Path, python: str, target: Path) -> None:
    """What is compiled for it finds its headers and libraries where they will be, not below /usr."""
    for machines_own in prefix.glob(f"include/*-linux-gnu*/python{python}/pyconfig.h"):
        shutil.copy(machines_own, prefix / "include" / f"python{python}")
    for settings in prefix.glob(f"lib/python{python}/_sysconfigdata_*.py"):
        text = re.sub(r"(?<![\w./])/usr/(?=lib/|include/|bin/)", f"{target}/", settings.read_text())
        settings.write_text(text)


def debian_mirror() -> str:
    """The address of the Debian archive that this machine's apt asks."""
    told = run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)")
    for line in told.splitlines():
        origin, label, uri = line.split("|", 2)
        if origin == label == "Debian":
            return uri
    raise RuntimeError("apt is not set up with a Debian archive, or was never updated (apt-get update)")


def build(python: str, into: Path, cache: Path) -> Path:
    """Fetch the sources of 3.13t, and build and install it under its full version."""
    folder = cache / f"python{python}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = own_apt(cache, debian_mirror(), "deb-src", SOURCE_SUITE)
    package = f"python{python.removesuffix('t')}"
    run("apt-get", "-qq", "source", "--download-only", "--only-source", package, env=env, cwd=folder)
    [archive] = folder.glob("*.orig.tar.xz")
    run("tar", "-xf", str(archive), "--strip-components=1", cwd=folder)
    version = archive.name.removeprefix(f"{package}_").removesuffix(".orig.tar.xz")
    target = into.absolute() / f"{version}t"
    run("./configure", "--disable-gil", f"--prefix={target}", cwd=folder)
    run("make", f"-j{os.cpu_count()}", cwd=folder)
    run("make", "install", cwd=folder)
    shutil.rmtree(folder)
    return target / "bin" / f"python{python}"


def own_apt(cache: Path, mirror: str, kind: str, suite: str) -> dict[str, str]:
    """The environment of an apt of its own, with a suite's lists, that believes nothing is installed."""
    state = cache / "state"
    for folder in (state / "lists" / "partial", cache / "parts"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")
    signed = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
    (cache / "parts" / "later.sources").write_text(
        f"Types: {kind}\nURIs: {mirror}\nSuites: {suite}\nComponents: main\n{signed}"
    )
    settings = {
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": cache,
        "Dir::Etc::sourcelist": os.devnull,
        "Dir::Etc::sourceparts": cache / "parts",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    (cache / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    env = {**os.environ, "APT_CONFIG": str(cache / "apt.conf")}
    run("apt-get", "-qq", "update", env=env)
    return env


def fetch(python: str, mirror: str, cache: Path) -> list[Path]:
    """Download the interpreter with all it needs."""
    archives = cache / "archives" / python
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    env = own_apt(cache, mirror, "deb", SUITE)
    options = ("--download-only", "--no-install-recommends", "-o", f"Dir::Cache::Archives={archives}")
    # The shared library and the headers: what embeds Python, or is compiled for it, is tested too.
    needs = (f"python{python}", f"libpython{python}")
    run("apt-get", "-qq", "-y", *options, "install", *needs, env=env)
    # Their dependencies are a compiler's, which this machine has.
    extra = (f"libpython{python}-dev", f"python{python}-venv")
    run("apt-get", "-qq", "download", *extra, env=env, cwd=archives)
    return sorted(archives.glob("*.deb"))


def full_version(loader: Path, binary: Path) -> str:
    """ "3.14.8", asked of the interpreter where it was unpacked."""
    told = run(str(loader), "--library-path", str(loader.parent), str(binary), "-V")
    found = re.search(r"Python (\S+)", told)
    if found is None:
        raise RuntimeError(f"{binary} says {told!r} of its version")
    return found[1]


def run(*argv: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """What a command prints; RuntimeError with its last words when it fails."""
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv[:3])}…: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
