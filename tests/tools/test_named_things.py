"""Every option, variable, metric, API path and page link in a text exists.

The texts are the string literals of the product, the files of the chart, and the documentation pages. A
name that is not Sidelight's own belongs in FOREIGN_OPTIONS or FOREIGN_PATHS.
"""

import ast
import dataclasses
import importlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench.swarm.__main__ import Plan
from sidelight import main
from sidelight.settings import format_flag, format_variable
from sidelight_collector.answers.endpoints import METRICS as ENDPOINT_METRICS
from sidelight_collector.metrics import Metrics as CollectorMetrics
from sidelight_collector.profile_metrics.exposition import METRICS as RULE_METRICS
from sidelight_injector.metrics import Metrics as InjectorMetrics
from sidelight_sidecar.metrics import SidecarMetrics
from tests.tools.site import read_page

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(sorted(folder.parent.name for folder in ROOT.glob("*/pyproject.toml")))
CHART = ROOT / "deploy" / "helm" / "sidelight"
OPENAPI = ROOT / "collector" / "sidelight_collector" / "http" / "api" / "openapi.json"
HOLE = "\0"
"""The placeholder in a text for a value that only exists at run time."""

FOREIGN_OPTIONS = {
    "apt-get": {"--just-print"},
    "base64": {"--decode"},
    "curl": {"--compressed", "--data-binary", "--data-urlencode", "--silent"},
    "docker": {"--build-arg", "--cap-add", "--entrypoint", "--rm", "--user"},
    "gh": {"--body-file"},
    "git": {"--branch", "--depth"},
    "gunicorn": {"--max-requests"},
    "helm": {"--create-namespace", "--install", "--reset-then-reuse-values", "--set", "--values"},
    "kubectl": {
        *("--as", "--from-file", "--from-literal", "--image", "--kubeconfig", "--overwrite", "--previous"),
        *("--profile", "--raw", "--resource", "--serviceaccount", "--target", "--token", "--verb"),
    },
    "make": {"--jobserver-", "--no-print-directory", "--question"},
    "npm": {"--no-audit", "--no-fund"},
    "osv-scanner": {"--archive"},
    "otelcol": {"--feature-gates"},
    "pip": {"--find-links"},
    "py-spy": {"--native"},
    "python": {"--check-hash-based-pycs", "--collapsed", "--gecko", "--jsonl"},
    "setpriv": {"--bounding-set", "--pdeathsig"},
}
EXAMPLES = {"--flag-name", "--x", "--no-x"}
"""Example options in the docstring that explains how to declare settings."""
FOREIGN_PATHS = ("/api/v1/namespaces", "/api/v1/nodes", "/api/v1/pods", "/api/v1/query")
"""API paths of the Kubernetes API server and of Prometheus."""


class Text(NamedTuple):
    """A piece of text and its location."""

    where: str
    text: str


def python_texts() -> Iterator[Text]:
    """Yield every string literal, including docstrings."""
    for path in sorted(path for top in PACKAGES for path in (ROOT / top).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {
            id(value)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for value in node.values
            if isinstance(value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = (value.value if isinstance(value, ast.Constant) else HOLE for value in node.values)
                yield Text(f"{name}:{node.lineno}", "".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
                yield Text(f"{name}:{node.lineno}", node.value)


def line_texts(paths: list[Path]) -> Iterator[Text]:
    """Yield every line of the files."""
    for path in sorted(paths):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield Text(f"{path.relative_to(ROOT).as_posix()}:{number}", line)


@cache
def texts() -> tuple[Text, ...]:
    """Collect all texts that may contain names."""
    web = [path for path in (ROOT / "web" / "src").rglob("*") if path.suffix in {".ts", ".tsx", ".json"}]
    chart = [path for path in CHART.rglob("*") if path.is_file() and "tests" not in path.parts]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "settings").glob("*.md")]
    holes = (Text(where, re.sub(r"\$\{[^}]*\}", HOLE, text)) for where, text in line_texts(web))
    return (*python_texts(), *holes, *line_texts(chart), *line_texts(pages))


def named(pattern: str) -> dict[str, list[str]]:
    """Map each match of a pattern in the texts to its locations."""
    found: dict[str, list[str]] = {}
    for where, text in texts():
        for match in re.finditer(pattern, text):
            found.setdefault(match[0], []).append(where)
    return found


def missing(found: dict[str, list[str]], known: set[str]) -> dict[str, list[str]]:
    """Return the names in `found` that are not in `known`, with their locations.

    A name that ends in - or _ is a prefix: it is missing only if no known name starts with it.
    """
    return {
        name: places
        for name, places in sorted(found.items())
        if name not in known
        and not (name.endswith(("-", "_")) and any(other.startswith(name) for other in known))
    }


@cache
def settings() -> tuple[dataclasses.Field[object], ...]:
    """Collect every setting of every command."""
    found: dict[type, None] = {}
    for path in sorted(path for top in PACKAGES for path in (ROOT / top).rglob("*.py")):
        if "setting(" not in path.read_text(encoding="utf-8"):
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts[1:]
        module = importlib.import_module(".".join(parts))
        found |= {one: None for one in vars(module).values() if dataclasses.is_dataclass(one)}
    return tuple(
        field for one in found for field in dataclasses.fields(one) if "positional" in field.metadata
    )


def own_options() -> set[str]:
    """Collect the options of commands and scripts, and the CSS variables of the UI."""
    styles = (ROOT / "web" / "src" / "styles").rglob("*.css")
    known = {"--help", "--version"} | {f"--{field.name}" for field in dataclasses.fields(Plan)}
    for path in styles:
        known |= set(re.findall(r"--[a-z][a-z0-9-]*(?=:)", path.read_text(encoding="utf-8")))
    for field in settings():
        names = {format_flag(field), *field.metadata["aliases"]}
        known |= names
        if field.metadata["switch"]:
            known |= {name.replace("--", "--no-", 1) for name in names}
    scripts = [path for top in ("bench", "tests", "deploy") for path in (ROOT / top).rglob("*.py")]
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        known |= set(re.findall(r"add_argument\(\s*(?:\"-\w\", )?\"(--[a-z][a-z-]*)\"", text))
    return known


def test_every_option_that_is_named_exists():
    foreign = set().union(*FOREIGN_OPTIONS.values())
    found = named(r"(?<![\w<!/\[-])--[a-z][a-z0-9-]*")
    assert missing(found, own_options() | foreign | EXAMPLES) == {}


def test_no_switch_is_named_with_a_value():
    # The command line has `--links` and `--no-links`, and refuses `--links=false`.
    assert named(r"(?<![\w<!/\[-])--[a-z][a-z0-9-]*=(?:true|false)\b") == {}


def test_every_variable_that_is_named_exists():
    known = {format_variable(field) for field in settings()}
    assert missing(named(r"\bSIDELIGHT_[A-Z0-9_]+"), known) == {}


def test_every_setting_of_the_chart_that_is_named_exists():
    known = {field.name.rstrip("_") for field in settings()}
    assert missing(named(r"(?<=(?:or|ar)\.settings\.)[a-z0-9_]+"), known) == {}


def test_every_metric_that_is_named_exists():
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum", "")}
    known = {
        metric.name + ending
        for metrics in (CollectorMetrics(), SidecarMetrics(), InjectorMetrics())
        for metric in metrics.registry.collect()
        for ending in endings.get(metric.type, ("",))
    }
    known |= {*ENDPOINT_METRICS, *RULE_METRICS}
    packages = {f"sidelight_{name}" for name in (*PACKAGES, "native")}
    found = named(r"(?<![\w./-])sidelight_[a-z0-9_]+(?![\w-]|\.[a-z])")
    elsewhere = {
        name: others
        for name, places in found.items()
        if (others := [place for place in places if "/metrics.py:" not in place])
    }
    fields = {"sidelight_version"}  # of the capture protocol
    assert missing(elsewhere, known | packages | fields) == {}


def test_every_path_of_the_api_that_is_named_exists():
    paths = json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"]
    routes = [re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))) for path in paths]
    found = named(r"(?<![\w.])/api/v1[^\s\"'`,;:?)\]|\\&]*")
    unknown = {
        path: places
        for path, places in found.items()
        if not path.startswith(FOREIGN_PATHS) and not _is_path(path.rstrip("./"), routes, list(paths))
    }
    assert unknown == {}


def _is_path(path: str, routes: list[re.Pattern[str]], paths: list[str]) -> bool:
    path = re.sub(r"<[^>]*>|\{[^}]*\}|…", "x", path.replace("<path>", HOLE))
    shape = re.compile(".*".join(map(re.escape, path.split(HOLE))))
    filled = path.replace(HOLE, "x")
    return (
        any(route.fullmatch(filled) for route in routes)
        or any(shape.fullmatch(one) for one in paths)
        or any(one.startswith(f"{path}/") for one in paths)
    )


def test_every_command_that_is_named_exists():
    found = named(r"(?:(?<=`sidelight )|(?<=^    sidelight ))[a-z]+")
    assert missing(found, set(main.COMMANDS)) == {}


def test_every_page_and_heading_that_is_named_exists():
    broken = {
        f"{where}: {link}" for where, text in texts() for link in _links(where, text) if not _is_heading(link)
    }
    assert broken == set()


def _links(where: str, text: str) -> Iterator[str]:
    """Find links to pages, relative to the repository root, with or without #heading."""
    file = where.rpartition(":")[0]
    yield from re.findall(r"(?<![\w./-])docs/[\w-]+\.md(?:#[\w-]+)?", text)
    yield from (f"docs/operations.md{heading}" for heading in re.findall(r"<runbook>(#[\w-]+)", text))
    if file.endswith(".md"):
        for target in re.findall(r"\]\((?!https?:)([^)\s]*)\)", text):
            path, _, heading = target.partition("#")
            page = (ROOT / file).parent / path if path else ROOT / file
            yield f"{page.resolve().relative_to(ROOT).as_posix()}" + (f"#{heading}" if heading else "")


def _is_heading(link: str) -> bool:
    path, _, heading = link.partition("#")
    page = ROOT / path
    return page.exists() and (not heading or heading in _headings(page))


@cache
def _headings(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, which GitHub and the documentation site generate alike."""
    text = re.sub(r"^```.*?^```", "", read_page(page), flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for title in re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.append(f"{name}-{count}" if (count := found.count(name)) else name)
    return frozenset(found)


def test_a_name_that_nothing_has_is_found():
    found = {"--rate": ["a:1"], "--flush-second": ["a:2"], "--trigger-": ["a:3"], "--gone-": ["a:4"]}
    assert missing(found, {"--rate", "--flush-seconds", "--trigger-rate"}) == {
        "--flush-second": ["a:2"],
        "--gone-": ["a:4"],
    }


def test_a_heading_that_a_page_does_not_have_is_found():
    assert _is_heading("docs/operations.md#what-to-watch")
    assert not _is_heading("docs/operations.md#what-to-see")
    assert not _is_heading("docs/operation.md")


def test_a_path_that_is_no_route_is_found():
    paths = ["/api/v1/captures", "/api/v1/captures/{id}/stop"]
    routes = [re.compile(route) for route in ("/api/v1/captures", "/api/v1/captures/[^/]+/stop")]
    assert all(_is_path(path, routes, paths) for path in (paths[0], "/api/v1", "/api/v1/captures/c_1/stop"))
    assert _is_path(f"/api/v1/captures/{HOLE}", routes, paths)
    assert not _is_path("/api/v1/capture", routes, paths)
    assert _is_path(f"/api/v1/captures/{HOLE}/stop", routes, paths)
    assert not _is_path(f"/api/v1/capture/{HOLE}", routes, paths)
    assert not _is_path(f"/api/v1/captures/{HOLE}/end", routes, paths)
