"""Writes the databases of `make audit` for a machine that does not reach api.osv.dev.

`python -m deploy.sbom.advisories --into .tools/advisories FOLDER…` reads the OSV records (JSON or YAML) below
the folders, and writes one archive for each ecosystem, where osv-scanner looks for it. Suitable folders are
clones of pypa/advisory-database, of the branch `osv` of rustsec/advisory-db, and of github/advisory-database.
"""

import argparse
import json
import shutil
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Record = Mapping[str, Any]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom.advisories", description="write databases")
    parser.add_argument("--into", type=Path, required=True, help="the folder to write to")
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="a folder with OSV records")
    arguments = parser.parse_args(argv)
    records = (record for folder in arguments.folders for record in read_records(folder))
    counts = write_databases(records, arguments.into)
    if not counts:
        sys.exit("error: no OSV record below these folders\nhint: name clones of advisory databases")
    for ecosystem, count in sorted(counts.items()):
        sys.stdout.write(f"{ecosystem}: {count} records\n")


def read_records(folder: Path) -> Iterator[Record]:
    """Read every OSV record below a folder; other files are skipped."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".yaml"):
            text = path.read_text(encoding="utf-8")
            record = json.loads(text) if path.suffix == ".json" else yaml.load(text, _Loader)  # noqa: S506
            if isinstance(record, dict) and "id" in record and "affected" in record:
                yield record


class _Loader(yaml.CSafeLoader):
    """A safe loader that leaves times as text, as they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def write_databases(records: Iterable[Record], target: Path) -> Counter[str]:
    """Replace the databases below a folder; returns the number of records by ecosystem."""
    shutil.rmtree(target / "osv-scalibr", ignore_errors=True)
    archives: dict[str, zipfile.ZipFile] = {}
    counts: Counter[str] = Counter()
    try:
        for record in records:
            for ecosystem in find_ecosystems(record):
                if ecosystem not in archives:
                    folder = target / "osv-scalibr" / ecosystem
                    folder.mkdir(parents=True)
                    archives[ecosystem] = zipfile.ZipFile(folder / "all.zip", "w", zipfile.ZIP_DEFLATED)
                archives[ecosystem].writestr(f"{record['id']}.json", json.dumps(record))
                counts[ecosystem] += 1
    finally:
        for archive in archives.values():
            archive.close()
    return counts


def find_ecosystems(record: Record) -> list[str]:
    """Find the ecosystems of a record's packages, without their release: Debian of Debian:12."""
    names = (affected.get("package", {}).get("ecosystem", "") for affected in record["affected"])
    return sorted({name.partition(":")[0] for name in names if name})


if __name__ == "__main__":
    main(sys.argv[1:])
