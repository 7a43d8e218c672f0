"""Whatever word the programs say, the manual has a section for it, and what leads there leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from sidelight_injector.admission.skip_reasons import SkipReason
from sidelight_model.errors import Reason

DOCS = Path(__file__).resolve().parents[2] / "docs"
WORDS = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
PAGES = ("kubernetes.md", "troubleshooting.md")


@pytest.mark.parametrize("word", list(Reason))
def test_every_word_of_the_programs_has_a_section(word):
    [section] = re.findall(rf"^### `{word}`\n((?:(?!##).+\n)+)", WORDS, re.MULTILINE)
    assert len(section) > 20


def test_every_section_is_of_a_word_that_there_is():
    assert set(re.findall(r"^### `([a-z_]+)`$", WORDS, re.MULTILINE)) == set(Reason)


@pytest.mark.parametrize("word", list(SkipReason))
def test_every_reason_to_leave_a_pod_alone_has_a_row(word):
    page = (DOCS / "injector.md").read_text(encoding="utf-8")
    section = page.partition("## Why a pod got none")[2].partition("\n## ")[0]
    assert f"|`{word}`|" in section
    assert "injector.md#why-a-pod-got-none" in WORDS


def test_every_alert_that_is_named_exists():
    rules = (DOCS.parent / "deploy" / "helm" / "sidelight" / "alerts.yaml").read_text(encoding="utf-8")
    alerts = set(re.findall(r"alert: (\w+)", rules))
    assert set(re.findall(r"`(Sidelight[A-Z]\w+)`", WORDS)) <= alerts


@pytest.mark.parametrize("page", PAGES)
def test_what_leads_elsewhere_leads_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for path, section in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        target = (DOCS / path).resolve() if path else DOCS / page
        assert target.exists(), f"{page}: {path}"
        if section and target.exists():
            assert section in _sections(target.read_text(encoding="utf-8")), f"{page}: {path}#{section}"


def _sections(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-") for title in titles}


def _values() -> list[str]:
    page = (DOCS / "kubernetes.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if block.startswith("collector:")]


@pytest.mark.parametrize("values", _values())
def test_the_values_of_the_quickstart_can_be_installed(values, helm, chart, tmp_path):
    first = tmp_path / "first.yaml"
    first.write_text(_values()[0], encoding="utf-8")
    place = tmp_path / "values.yaml"
    place.write_text(values, encoding="utf-8")
    flags = ("--kube-version", "1.34.0", "--values", first, "--values", place)
    text = helm("template", "sidelight", chart, *flags).stdout
    assert 'image: "REGISTRY/sidelight-collector:' in text
    assert "kind: MutatingWebhookConfiguration" in text


def test_the_quickstart_of_the_readme_can_be_installed(helm, chart):
    page = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    command = page.partition("helm upgrade --install sidelight deploy/helm/sidelight")[2].partition(
        "kubectl"
    )[0]
    words = shlex.split(command.replace("\\\n", " "))
    flags = [word for word in words if word != "--create-namespace"]
    documents = list(
        yaml.safe_load_all(helm("template", "sidelight", chart, "--kube-version", "1.34.0", *flags).stdout)
    )
    assert {one["metadata"]["namespace"] for one in documents if "namespace" in one["metadata"]} == {
        "profiling"
    }
    [account] = [
        one for one in documents if one["kind"] == "ServiceAccount" and "annotations" in one["metadata"]
    ]
    assert account["metadata"]["name"] == "sidelight-collector"
