"""docs/identity.md has what links to it expect, and each name that a pod may have."""

from __future__ import annotations

import re
from pathlib import Path

from sidelight_kubernetes import label_names

DOCS = Path(__file__).parents[2] / "docs"
IDENTITY = (DOCS / "identity.md").read_text()


def test_each_link_to_a_section_finds_it() -> None:
    headings = re.findall(r"^#+ (.*)$", IDENTITY, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    pages = [path for path in DOCS.glob("*.md") if path.name != "identity.md"]
    linked = {found for page in pages for found in re.findall(r"identity\.md#([\w-]+)", page.read_text())}
    assert linked | set(re.findall(r"\]\(#([\w-]+)\)", IDENTITY)) <= anchors
    assert linked


def test_the_names_that_a_pod_may_say_are_in_the_table() -> None:
    for name in (
        label_names.SERVICE,
        label_names.VERSION,
        label_names.APP_NAME,
        label_names.APP_VERSION,
        label_names.CONTAINER,
    ):
        assert f"`{name}`" in IDENTITY
