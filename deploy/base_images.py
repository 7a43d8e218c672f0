"""Pins the base images of the Dockerfile by digest.

`base_images.py [--file Dockerfile] [--check]` asks the registry for the digest of each
`ARG NAME_IMAGE=name:tag`, and writes `name:tag@sha256:…`. The tag stays: the next run asks for it again. With
`--check` it writes nothing, and ends with 1 if a registry has another image than the file. If one image
cannot be resolved, the file stays as it is.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CRANE = ROOT / ".tools" / "bin" / "crane"
TIMEOUT_SECONDS = 60
"""The longest wait for one registry."""

_BASE_IMAGE = re.compile(r"^(ARG \w+_IMAGE=)(\S+)$", re.MULTILINE)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="base_images.py", description="pin the base images by digest")
    parser.add_argument("--file", type=Path, default=ROOT / "Dockerfile", help="the Dockerfile")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a digest differs")
    arguments = parser.parse_args(argv)
    path: Path = arguments.file
    before = path.read_text(encoding="utf-8")
    after = pin(before, {image: resolve(image) for image in find_base_images(before)})
    changes = find_changes(before, after)
    sys.stdout.write("".join(f"{change}\n" for change in changes) or "every base image is up to date\n")
    if changes and arguments.check:
        sys.exit("hint: make base-images")
    if changes:
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_text(after, encoding="utf-8")
        unfinished.chmod(path.stat().st_mode)
        unfinished.replace(path)


def find_base_images(dockerfile: str) -> list[str]:
    """Find the names and tags of the base images, without digests."""
    return [remove_digest(image) for _, image in _BASE_IMAGE.findall(dockerfile)]


def remove_digest(image: str) -> str:
    return image.partition("@")[0]


def pin(dockerfile: str, digests: Mapping[str, str]) -> str:
    """Return the Dockerfile with these digests of its base images."""
    return _BASE_IMAGE.sub(
        lambda m: f"{m[1]}{remove_digest(m[2])}@{digests[remove_digest(m[2])]}", dockerfile
    )


def find_changes(before: str, after: str) -> list[str]:
    """Describe each base image that two Dockerfiles name differently."""
    pairs = zip(_BASE_IMAGE.findall(before), _BASE_IMAGE.findall(after), strict=True)
    return [f"{old} -> {new}" for (_, old), (_, new) in pairs if old != new]


def resolve(image: str) -> str:
    """Ask a registry for the digest of an image: that of the list, where a tag names several platforms."""
    if not CRANE.is_file():
        sys.exit(f"error: {CRANE} is missing\nhint: make base-images builds it")
    command = [CRANE, "digest", image]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(
            f"error: {image}: no answer within {TIMEOUT_SECONDS} s\nhint: check the network and the proxy"
        )
    digest = done.stdout.strip()
    if done.returncode or not _DIGEST.fullmatch(digest):
        reason = (done.stderr.strip().splitlines() or ["crane printed no digest"])[-1]
        sys.exit(f"error: {image}: {reason}\nhint: check the name, the network, and `crane auth login`")
    return digest


if __name__ == "__main__":
    main(sys.argv[1:])
