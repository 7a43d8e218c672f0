"""Renders the chart once per mode, so that a review shows what a change does in the cluster.

`render.py [DIRECTORY]` writes one file per values file under modes/, and the example service's, to DIRECTORY
(deploy/helm/rendered unless given), and removes what is there of modes that are gone. `paste/sidecar.yaml`
is the sidecar alone, as the injector has it.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
HELM = HERE.parent.parent / ".tools" / "bin" / "helm"
KUBERNETES = "1.34.0"
PASTED = """\
# The sidecar, for a Deployment without injection: change SERVICE, VERSION and the collector's URL, then
#   kubectl --namespace shop patch deployment checkout --patch-file sidecar.yaml
# or paste it into the pod template. Before Kubernetes 1.29, put it in `containers` without restartPolicy.
"""


def main(argv: list[str]) -> None:
    target = Path(argv[0]) if argv else HERE / "rendered"
    if not HELM.is_file():
        sys.exit(f"error: {HELM} is missing\nhint: make tools")
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob("*.yaml"):
        stale.unlink()
    for name, text in rendered():
        (target / f"{name}.yaml").write_text(text, encoding="utf-8")
    (target / "paste").mkdir(exist_ok=True)
    (target / "paste" / "sidecar.yaml").write_text(pasted(), encoding="utf-8")


def rendered() -> Iterator[tuple[str, str]]:
    """Each mode's name and its YAML."""
    for values in sorted((HERE / "modes").glob("*.yaml")):
        yield values.stem, template("sidelight", HERE / "sidelight", "profiling", "--values", str(values))
    with tempfile.TemporaryDirectory() as scratch:
        chart = Path(shutil.copytree(HERE / "example", Path(scratch) / "checkout"))
        shutil.copytree(HERE / "sidelight", chart / "charts" / "sidelight")
        yield "sidecar", template("checkout", chart, "shop")
        native = ["--set", "native=true", "--set", "sidelight.sidecar.sameUser=10001"]
        yield "sidecar-native", template("checkout", chart, "shop", *native)


def pasted() -> str:
    """The sidecar with the chart's defaults, as a patch of a Deployment."""
    values, only = str(HERE / "modes" / "injector.yaml"), "templates/injector-configmap.yaml"
    flags = ["--values", values, "--show-only", only]
    text = template("sidelight", HERE / "sidelight", "profiling", *flags)
    sidecar = json.loads(yaml.safe_load(text)["data"]["sidecar.json"])
    container = {**sidecar["container"], "restartPolicy": "Always"}
    pod = {"shareProcessNamespace": True, "initContainers": [container], "volumes": sidecar["volumes"]}
    return PASTED + yaml.safe_dump({"spec": {"template": {"spec": pod}}}, sort_keys=False)


def template(release: str, chart: Path, namespace: str, *flags: str) -> str:
    """What `helm template` prints; its complaint goes to standard error and ends the run."""
    place = ["--namespace", namespace, "--kube-version", KUBERNETES]
    command = [HELM, "template", release, chart, *place, *flags]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
