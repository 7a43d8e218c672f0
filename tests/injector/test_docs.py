"""docs/injector.md is complete: an annotation or reason that it does not name fails here."""

import re
from pathlib import Path

import pytest

from sidelight.settings import BadSetting, parse_settings
from sidelight_injector.admission.skip_reasons import SkipReason
from sidelight_injector.settings import Settings
from sidelight_kubernetes import label_names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "injector.md").read_text()
NEEDED = ["--sidecar-file", "/sidecar.json"]


def table(text: str) -> dict[str, list[str]]:
    """Rows of a table by their first cell without its backticks."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_every_reason_is_documented():
    section = PAGE.partition("## Why a pod got none")[2].partition("**Pod Security**")[0]
    assert {name for name in table(section) if "_" in name or name == "internal"} == set(SkipReason)


def test_every_annotation_is_documented():
    for annotation in label_names.ANNOTATIONS:
        assert f"`{annotation}`" in PAGE


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "--sidecar-file is required"),
        ([*NEEDED, "--listen", "8443"], "not HOST:PORT"),
        ([*NEEDED, "--certificate-days", "122"], "at most a third of --ca-days"),
        ([*NEEDED, "--events-per-minute", "0"], "from 1 to 6000"),
        ([*NEEDED, "--max-body-bytes", "1023k"], "at least 1M"),
        ([*NEEDED, "--max-connections", "0"], "--max-connections must be at least 1"),
        ([*NEEDED, "--idle-timeout-seconds", "0"], "is not above zero"),
        ([*NEEDED, "--namespace-timeout-seconds", "4.1"], "at most 4"),
        ([*NEEDED, "--pod-security-default", "strict"], "not one of privileged, baseline, restricted"),
        ([*NEEDED, "--native-sidecars", "yes"], "not one of auto, always, never"),
        ([*NEEDED, "--log-level", "loud"], "not one of debug"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(flags, told):
    with pytest.raises(BadSetting, match=re.escape(told)):
        parse_settings(Settings, "injector", "", flags, {})


def test_limits_hold_at_their_edge():
    edge = ["--certificate-days", "121.6", "--events-per-minute", "6000", "--max-body-bytes", "1M"]
    edge += ["--max-connections", "1"]
    assert parse_settings(Settings, "injector", "", [*NEEDED, *edge, "--namespace-timeout-seconds", "4"], {})


def test_the_injectors_own_namespace_is_always_excluded():
    settings = parse_settings(
        Settings, "injector", "", [*NEEDED, "--exclude-namespace", "other"], {"SIDELIGHT_NAMESPACE": "p"}
    )
    assert settings.excluded_namespaces == {"other", "p"}
