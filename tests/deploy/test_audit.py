"""`make audit` without a network: databases out of advisory records, and what osv-scanner finds with them."""

import json
import os
import subprocess
import sys
import zipfile
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


@pytest.mark.long
def test_the_audit_finds_a_known_vulnerability_of_a_shipped_version_alone(tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    for name, fixed in (("aiohttp", "999"), ("attrs", "1.0")):
        text = RECORD.format(id=f"PYSEC-2026-{name}", name=name, fixed=fixed)
        (records / f"{name}.yaml").write_text(text, encoding="utf-8")
    sbom = tmp_path / "python.cdx.json"
    component = {"type": "library", "name": "aiohttp", "version": "3.14.5", "purl": "pkg:pypi/aiohttp@3.14.5"}
    other = {"type": "library", "name": "attrs", "version": "26.1.0", "purl": "pkg:pypi/attrs@26.1.0"}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [component, other]}
    sbom.write_text(json.dumps(document), encoding="utf-8")
    write_databases(tmp_path / "databases", records)
    command = [tool("osv-scanner"), "scan", "source", "--offline", "--format=json", "--lockfile", sbom]
    environment = {**os.environ, "OSV_SCALIBR_LOCAL_DB_CACHE_DIRECTORY": str(tmp_path / "databases")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    [source] = json.loads(done.stdout)["results"]
    found = {package["package"]["name"]: package["vulnerabilities"] for package in source["packages"]}
    assert [entry["id"] for entry in found["aiohttp"]] == ["PYSEC-2026-aiohttp"]
    assert "attrs" not in found
