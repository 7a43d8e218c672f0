"""`make audit` without a network: databases out of advisory records, and what osv-scanner finds with them."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.processes import tool

ROOT = Path(__file__).resolve().parents[2]
RECORD = """\
id: {id}
modified: 2026-01-02T03:04:05Z
affected:
- package: {{ecosystem: PyPI, name: {name}}}
  ranges:
  - type: ECOSYSTEM
    events: [{{introduced: "0"}}, {{fixed: "{fixed}"}}]
"""


def write_databases(target: Path, *folders: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.sbom.advisories", "--into", target, *folders]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_records_of_json_and_yaml_are_in_the_database_of_each_of_their_ecosystems(tmp_path):
    records = tmp_path / "records" / "vulns"
    records.mkdir(parents=True)
    (records / "one.yaml").write_text(
        RECORD.format(id="PYSEC-1", name="aiohttp", fixed="2"), encoding="utf-8"
    )
    affected = [{"package": {"ecosystem": name, "name": "a"}} for name in ("npm", "Debian:12", "Debian:13")]
    (records / "two.json").write_text(json.dumps({"id": "GHSA-1", "affected": affected}), encoding="utf-8")
    (records / "package.json").write_text('{"name": "no record"}', encoding="utf-8")
    done = write_databases(tmp_path / "databases", tmp_path / "records")
    assert (done.returncode, done.stdout) == (0, "Debian: 1 records\nPyPI: 1 records\nnpm: 1 records\n")
    with zipfile.ZipFile(tmp_path / "databases" / "osv-scalibr" / "PyPI" / "all.zip") as archive:
        assert json.loads(archive.read("PYSEC-1.json"))["modified"] == "2026-01-02T03:04:05Z"


def test_folders_without_records_are_an_error(tmp_path):
    done = write_databases(tmp_path / "databases", tmp_path)
    assert done.returncode == 1
    assert "hint: " in done.stderr


def write_record(folder: Path, ecosystem: str, name: str, fixed: str) -> None:
    """Write a record of a vulnerability in all versions before `fixed`."""
    text = RECORD.format(id=f"TEST-{name}", name=name, fixed=fixed).replace("PyPI", f'"{ecosystem}"')
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def write_image(path: Path) -> None:
    """Write an archive of an image of Debian 12 that has one package, bash."""
    release = 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'
    status = "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2\n\n"
    layer = write_tar({"etc/os-release": release, "var/lib/dpkg/status": status})
    digest = hashlib.sha256(layer).hexdigest()
    config = {"architecture": "amd64", "os": "linux", "config": {}, "history": [{"created_by": "COPY"}]}
    config["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    manifest = [{"Config": "config.json", "RepoTags": ["example:1"], "Layers": ["layer.tar"]}]
    parts = {"layer.tar": layer, "config.json": json.dumps(config), "manifest.json": json.dumps(manifest)}
    path.write_bytes(write_tar(parts))


def write_tar(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.long
def test_the_audit_finds_known_vulnerabilities_and_says_where_it_has_no_advisories(tmp_path):
    tool("osv-scanner")
    records, sboms, image = tmp_path / "records", tmp_path / "sboms", tmp_path / "image.tar"
    records.mkdir()
    sboms.mkdir()
    versions = {"aiohttp": "3.14.5", "attrs": "26.1.0"}
    components = [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
        for name, version in versions.items()
    ]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": components}
    (sboms / "python.cdx.json").write_text(json.dumps(document), encoding="utf-8")
    write_image(image)
    flags = ["--sboms", sboms, "--database", tmp_path / "databases", "--image", image]
    command = [sys.executable, "-m", "deploy.sbom.audit", *flags]

    def audit() -> tuple[int, str]:
        assert write_databases(tmp_path / "databases", records).returncode == 0
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    write_record(records, "PyPI", "attrs", "1.0")
    code, output = audit()
    assert code == 1
    assert "clean: " in output
    assert f"failed: {image}" in output, "the image has Debian's packages, and no advisories for them"

    write_record(records, "Debian:12", "bash", "1.0")
    assert audit()[0] == 0

    write_record(records, "PyPI", "aiohttp", "999")
    write_record(records, "Debian:12", "bash", "99")
    code, output = audit()
    assert code == 1
    assert output.count("vulnerable: ") == 2
    assert "TEST-aiohttp" in output
    assert "TEST-attrs" not in output
