"""`make base-images` pins what the Dockerfile starts from, by the digests of a real registry."""

import hashlib
import re
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import tool

ROOT = Path(__file__).resolve().parents[2]
ACCEPT = "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.index.v1+json"


@pytest.fixture
def registry() -> Iterator[str]:
    """The host and port of an empty registry on loopback."""
    command = [tool("crane"), "registry", "serve", "--address", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            port = re.search(r"serving on port (\d+)", process.stderr.readline())
            assert port is not None
            yield f"127.0.0.1:{port[1]}"
        finally:
            process.kill()


def crane(*arguments: str | Path) -> None:
    subprocess.run([tool("crane"), *arguments], check=True, capture_output=True, timeout=60)


def push(image: str, content: str, folder: Path) -> str:
    """Push a list of images; returns its digest, computed from the registry's bytes."""
    (folder / "file").write_text(content, encoding="utf-8")
    with tarfile.open(folder / "layer.tar", "w") as archive:
        archive.add(folder / "file", arcname="file")
    crane("append", "--new_layer", folder / "layer.tar", "--new_tag", f"{image}-amd64")
    crane("index", "append", "--manifest", f"{image}-amd64", "--tag", image)
    host, _, rest = image.partition("/")
    name, _, tag = rest.partition(":")
    request = urllib.request.Request(f"http://{host}/v2/{name}/manifests/{tag}", headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return "sha256:" + hashlib.sha256(answer.read()).hexdigest()


def base_images(dockerfile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "deploy" / "base_images.py", "--file", dockerfile, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_base_images_are_pinned_by_the_digest_of_their_tag_and_follow_it(registry, tmp_path):
    python, node = f"{registry}/python:3.12", f"{registry}/node:24"
    first, other = push(python, "first", tmp_path), push(node, "other", tmp_path)
    dockerfile = tmp_path / "Dockerfile"
    text = "# start\nARG PYTHON_IMAGE={}\nARG NODE_IMAGE={}\nARG OTHER=1\nFROM ${{NODE_IMAGE}} AS ui\n"
    dockerfile.write_text(text.format(python, node), encoding="utf-8")

    assert base_images(dockerfile, "--check").returncode == 1
    assert dockerfile.read_text(encoding="utf-8") == text.format(python, node)
    assert base_images(dockerfile).returncode == 0
    assert dockerfile.read_text(encoding="utf-8") == text.format(f"{python}@{first}", f"{node}@{other}")
    assert base_images(dockerfile, "--check").returncode == 0

    second = push(python, "second", tmp_path)
    assert second != first
    assert first in base_images(dockerfile, "--check").stdout
    assert base_images(dockerfile).returncode == 0
    assert dockerfile.read_text(encoding="utf-8") == text.format(f"{python}@{second}", f"{node}@{other}")


def test_an_image_that_no_registry_has_leaves_the_dockerfile_unchanged(registry, tmp_path):
    push(f"{registry}/python:3.12", "content", tmp_path)
    dockerfile = tmp_path / "Dockerfile"
    text = f"ARG PYTHON_IMAGE={registry}/python:3.12\nARG NODE_IMAGE={registry}/node:24\n"
    dockerfile.write_text(text, encoding="utf-8")
    done = base_images(dockerfile)
    assert done.returncode == 1
    assert f"{registry}/node:24" in done.stderr
    assert "hint: " in done.stderr
    assert dockerfile.read_text(encoding="utf-8") == text


def test_every_stage_starts_from_a_base_image_argument_or_another_stage():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    arguments = {f"${{{name}}}" for name in re.findall(r"^ARG (\w+_IMAGE)=\S+$", text, re.MULTILINE)}
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    assert len(stages) == len(re.findall(r"^FROM ", text, re.MULTILINE))
    assert {source for source, _ in stages} - {name for _, name in stages} == arguments
