"""Writes what Sidelight ships: SBOMs (CycloneDX 1.6, JSON), and the list of licences.

`python -m deploy.sbom [--into dist/sbom]` writes one SBOM for each image, one for the native extension and
one for the pages. It ends with 1 if `licenses.py` does not allow the licence of a package. Equal lock files
give equal bytes. The SBOMs do not have the packages of the images' base: a scanner reads a built image.
"""

import argparse
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from deploy.sbom.licenses import BUNDLED, find_bundled_gnu_licenses, is_allowed
from deploy.sbom.packages import (
    Package,
    read_crates,
    read_image_content,
    read_npm_lock,
    read_own_distribution,
    read_python_lock,
    read_python_version,
)
from sidelight import __version__

ROOT = Path(__file__).resolve().parents[2]
LICENSE = "Apache-2.0"
"""Sidelight's own."""
NAMESPACE = uuid.UUID("5f1c2ad8-6a0e-4f7e-9a53-1d7b1f7f1f0c")
"""The namespace of the SBOMs' serial numbers: equal SBOMs have equal numbers."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """Something that Sidelight ships, and the packages in it."""

    name: str
    kind: ComponentType
    packages: tuple[Package, ...]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom", description="write SBOMs and licences")
    parser.add_argument("--into", type=Path, default=ROOT / "dist" / "sbom", help="the folder to write to")
    target: Path = parser.parse_args(argv).into
    shipments = read_shipments(ROOT)
    target.mkdir(parents=True, exist_ok=True)
    for shipment in shipments:
        text = render_sbom(shipment)
        (target / f"{shipment.name}.cdx.json").write_text(text, encoding="utf-8")
    (target / "licenses.md").write_text(render_licenses(shipments), encoding="utf-8")
    refused = list(find_refused(shipments))
    if refused:
        errors = "".join(f"error: {line}\n" for line in refused)
        sys.exit(f"{errors}hint: replace the package, or change deploy/sbom/licenses.py")
    packages = {package for shipment in shipments for package in shipment.packages}
    sys.stdout.write(f"{len(packages)} packages in {len(shipments)} SBOMs: {target}\n")


def read_shipments(root: Path) -> list[Shipment]:
    dockerfile = (root / "Dockerfile").read_text(encoding="utf-8")
    extension = read_own_distribution(root / "native", __version__)
    crates = tuple(sorted(read_crates(root / "native", "extension-module")))
    pages = tuple(sorted(read_npm_lock(root / "web" / "package-lock.json")))
    shipments = [
        Shipment("sidelight-native", ComponentType.LIBRARY, crates),
        Shipment("sidelight-web", ComponentType.APPLICATION, pages),
    ]
    for image in ("sidecar", "collector"):
        content = read_image_content(dockerfile, image)
        python = read_python_lock(root / content.lock, read_python_version(dockerfile))
        own = [read_own_distribution(root / folder, __version__) for folder in content.distributions]
        web = pages if "collector" in content.distributions else ()
        packages = tuple(sorted({*own, *python, extension, *crates, *web}))
        shipments.append(Shipment(f"sidelight-{image}-image", ComponentType.CONTAINER, packages))
    return shipments


def render_sbom(shipment: Shipment) -> str:
    root = Component(
        name=shipment.name.removesuffix("-image"),
        version=__version__,
        type=shipment.kind,
        bom_ref=shipment.name,
        licenses=[LicenseFactory().make_from_string(LICENSE)],
    )
    components = [_to_component(package) for package in shipment.packages]
    content = repr((shipment.name, __version__, shipment.packages))
    bom = Bom(components=components, serial_number=uuid.uuid5(NAMESPACE, content))
    bom.metadata.component = root
    bom.register_dependency(root, components)
    # The time of the run would make two SBOMs of the same lock files differ.
    bom.metadata.timestamp = None  # type: ignore[assignment]
    bom.metadata.tools.tools.clear()
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _to_component(package: Package) -> Component:
    url = PackageURL(package.registry, None, package.name, package.version)
    hashes = []
    if package.checksum:
        algorithm, digest = package.checksum
        hashes.append(HashType(alg=HashAlgorithm(algorithm), content=digest))
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=url.to_string(),
        purl=url,
        hashes=hashes,
        licenses=[LicenseFactory().make_from_string(package.license)] if package.license else [],
    )


def find_refused(shipments: Iterable[Shipment]) -> Iterator[str]:
    """Find packages that Sidelight may not ship, each with the reason."""
    for package in sorted({package for shipment in shipments for package in shipment.packages}):
        if not is_allowed(package.license):
            yield f"{package.name} {package.version} has the licence {package.license or 'unknown'!r}"
        if package.registry == "pypi":
            unexpected = set(find_bundled_gnu_licenses(package.name)) - set(BUNDLED.get(package.name, ()))
            for name in sorted(unexpected):
                yield f"{package.name} {package.version} contains a library with the licence {name!r}"


def render_licenses(shipments: Sequence[Shipment]) -> str:
    """Render a Markdown table of all packages, with their licences and with what ships them."""
    places: dict[Package, list[str]] = {}
    for shipment in shipments:
        for package in shipment.packages:
            places.setdefault(package, []).append(shipment.name.removeprefix("sidelight-"))
    head = ["# Licences of the packages that Sidelight ships", ""]
    return "\n".join([*head, *_render_counts(places), "", *_render_rows(places), ""])


def _render_counts(places: Iterable[Package]) -> list[str]:
    counts: dict[str, int] = {}
    for package in places:
        counts[package.license] = counts.get(package.license, 0) + 1
    rows = [f"| {name} | {count} |" for name, count in sorted(counts.items())]
    return ["| licence | packages |", "|---|---|", *rows]


def _render_rows(places: Mapping[Package, Sequence[str]]) -> Iterator[str]:
    yield from ("| package | version | from | licence | in |", "|---|---|---|---|---|")
    for package, names in sorted(places.items()):
        license_text = package.license
        if package.registry == "pypi" and package.name in BUNDLED:
            license_text += f"; inside: {', '.join(BUNDLED[package.name])}"
        source = "this repository" if package.registry == "generic" else package.registry
        yield f"| {package.name} | {package.version} | {source} | {license_text} | {', '.join(names)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
