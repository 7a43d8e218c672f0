"""Each of the ten most common tasks is at most two links away from the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#\s]+)?(?:#[^)\s]*)?\)")

TASKS = {
    "install": ("docs/kubernetes.md", "helm upgrade --install"),
    "label a namespace": ("docs/injector.md", "kubectl label namespace"),
    "see a flame graph": ("docs/reading.md", "## The flame graph"),
    "compare versions": ("docs/comparison.md", "# Compare versions"),
    "capture now": ("docs/captures.md", "sidelight capture --collector"),
    "set retention": ("docs/operations.md", "--retention-raw-days"),
    "restrict readers": ("docs/identity.md", "## Readers"),
    "size the bucket": ("docs/kubernetes.md", "## Size and cost"),
    "gate CI": ("docs/ci.md", "--fail-on"),
    "find out why a pod has no profile": ("docs/troubleshooting.md", "## By symptom"),
}
"""The page of each task, and what it has to say there."""


def find_links(page: Path) -> set[Path]:
    targets = (match[1] for match in LINK.finditer(page.read_text(encoding="utf-8")))
    return {(page.parent / target).resolve() for target in targets if target}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("origin", ["README.md", "docs/index.md"])
def test_common_tasks_are_at_most_two_links_away(task, origin):
    page, words = TASKS[task]
    first = find_links(ROOT / origin)
    second = {link for one in first if one.suffix == ".md" for link in find_links(one)}
    assert ROOT / page in first | second
    assert words in (ROOT / page).read_text(encoding="utf-8")
