"""A hook of MkDocs: generated text takes the place of its marker when the site is built.

`<!-- openapi -->` becomes the tables of the OpenAPI document. `<!-- include: PATH -->` becomes a file of the
repository without its title, its headings one level lower. `<!-- options: MODULE.CLASS -->` becomes a table
of the options of a command. `<!-- settings: PROGRAM -->` becomes tables of a program's settings, and
`<!-- metrics -->` tables of all metrics. `<!-- keys -->` becomes the keys of the pages.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("core", "model", "kubernetes", "sidecar", "collector", "injector", "cli")
DISTRIBUTIONS = [str(ROOT / name) for name in ("", *_PACKAGES)]
HELP = ROOT / "web/src/strings/help.json"
OPENAPI = ROOT / "collector/sidelight_collector/http/api/openapi.json"
Node = Mapping[str, Any]
_TITLES = {
    "read": "Read profiles",
    "captures": "Take captures",
    "cluster": "See the pods of a cluster",
    "deploys": "Follow deploys",
    "notes": "Write notes",
    "pyroscope": "Query as Pyroscope's clients do",
    "prometheus": "Metrics for Prometheus",
    "write": "Send windows",
}
_MANY_PATHS = 4
"""Parameters of at least so many paths are described once."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fill the markers of a page."""
    if "<!-- openapi -->" in markdown:
        document = json.loads(OPENAPI.read_text(encoding="utf-8"))
        markdown = markdown.replace("<!-- openapi -->", "\n".join(render_api(document)))
    markdown = re.sub(r"<!-- options: (\S+) -->", lambda marker: render_options(marker[1]), markdown)
    markdown = re.sub(r"<!-- settings: (\S+) -->", lambda marker: _render_settings(marker[1]), markdown)
    if "<!-- keys -->" in markdown:
        markdown = markdown.replace("<!-- keys -->", _render_keys())
    if "<!-- metrics -->" in markdown:
        markdown = markdown.replace("<!-- metrics -->", _load("deploy.metrics_page").render())
    return re.sub(r"<!-- include: (\S+) -->", lambda marker: _include(ROOT / marker[1]), markdown)


def _render_keys() -> str:
    keys = json.loads(HELP.read_text(encoding="utf-8"))["keys"]
    rows = [
        f"| {' '.join(f'`{key}`' for key in names.split())} | {_cell(effect)} |" for names, effect in keys
    ]
    return "\n".join(["| key | effect |", "|---|---|", *rows])


def _render_settings(program: str) -> str:
    pages = _load("deploy.settings_pages")
    return str(pages.render(next(page for page in pages.PAGES if page.program == program)))


def _load(module: str) -> Any:
    sys.path[:0] = [folder for folder in DISTRIBUTIONS if folder not in sys.path]
    return importlib.import_module(module)


def _include(path: Path) -> str:
    _, _, body = path.read_text(encoding="utf-8").partition("\n")
    return re.sub(r"^#", "##", body, flags=re.MULTILINE).strip()


def render_options(settings: str) -> str:
    """A table of the options that a settings class declares."""
    module, _, name = settings.rpartition(".")
    format_flag = _load("sidelight.settings").format_flag
    rows = [
        f"| `{format_flag(field)}` | {_format_default(field)} | {_cell(field.metadata['help'])} |"
        for field in dataclasses.fields(getattr(_load(module), name))
        if not field.metadata["positional"]
    ]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows])


def _format_default(field: dataclasses.Field[Any]) -> str:
    if field.metadata["required"]:
        return "required"
    if field.default in (None, "", ()):
        return ""
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    return f"{field.default:g}" if isinstance(field.default, float) else str(field.default)


def render_api(document: Node) -> Iterator[str]:
    """Yield Markdown: paths by tag, the parameters they share, and the types of answers."""
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    shared = _shared_parameters(document)
    yield "## Shared parameters\n"
    yield "Paths that take these name them in one line.\n"
    yield from _table("parameter", (_parameter_row(resolve(document, one)) for one in shared.values()))
    for tag, title in _TITLES.items():
        yield f"## {title}\n"
        for method, path, operation in operations:
            if operation["tags"][0] == tag:
                yield from _render_operation(document, method.upper(), path, operation, shared)
    yield from _render_responses(document, [operation for _, _, operation in operations])
    yield "## Types\n"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}\n"
        if text := schema.get("description"):
            yield f"{text}\n"
        yield from _table("field", _fields(document, schema, ""))


def _shared_parameters(document: Node) -> dict[str, Node]:
    """Parameters of many paths, by their reference."""
    references = [
        parameter["$ref"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
        if "$ref" in parameter
    ]
    return {
        one: {"$ref": one}
        for one in dict.fromkeys(references)
        if references.count(one) >= _MANY_PATHS and not one.endswith("/capture")
    }


def _render_operation(
    document: Node, method: str, path: str, operation: Node, shared: Mapping[str, Node]
) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield f"{operation['summary']}.\n"
    if text := operation.get("description"):
        yield f"{text}\n"
    parameters = [resolve(document, parameter) for parameter in operation.get("parameters", [])]
    yield f"    {curl(method, path, operation, parameters)}\n"
    listed = operation.get("parameters", [])
    if common := [resolve(document, one)["name"] for one in listed if one.get("$ref") in shared]:
        yield f"[Shared](#shared-parameters): {', '.join(f'`{name}`' for name in common)}.\n"
    own = [resolve(document, one) for one in listed if one.get("$ref") not in shared]
    yield from _table("parameter", map(_parameter_row, own))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"Body: {_type(content['schema'])}\n"
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            answer = resolve(document, response)
            types = [_type(content["schema"]) for content in answer.get("content", {}).values()]
            yield f"{status}: {answer['description']} {', '.join(dict.fromkeys(types))}\n"
    errors = [f"[{status}](#errors)" for status in operation["responses"] if status >= "3"]
    yield f"Other answers: {', '.join(errors)}.\n"


def _render_responses(document: Node, operations: list[Node]) -> Iterator[str]:
    responses = [
        (status, resolve(document, response))
        for operation in operations
        for status, response in operation["responses"].items()
    ]
    errors = {(status, one["description"]) for status, one in responses if status >= "3"}
    yield "## Errors\n"
    yield "\n".join(
        ["| status | cause |", "|---|---|", *(f"| {s} | {_cell(t)} |" for s, t in sorted(errors)), ""]
    )
    headers = {name: header for _, one in responses for name, header in one.get("headers", {}).items()}
    yield "## Headers\n"
    rows = ((name, "text", resolve(document, one).get("description", "")) for name, one in headers.items())
    yield from _table("header", rows)


def curl(method: str, path: str, operation: Node, parameters: list[Node]) -> str:
    """A command that sends the examples of the document."""
    examples = {one["name"]: one["example"] for one in parameters if one["in"] == "path" and "example" in one}
    address = re.sub(r"{(\w+)}", lambda name: quote(str(examples.get(name[1], name[0]))), path)
    needed = [
        one for one in parameters if one["name"] in ("query", "service") or one["schema"].get("default") == ""
    ]
    asked = {one["name"]: one["example"] for one in needed if one["in"] == "query"}
    query = f"?{urlencode(asked)}" if asked else ""
    flag = {"GET": "", "PUT": "-T recording.json.zst "}.get(method, f"-X {method} ")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if "example" in content:
            sent = f"--json '{json.dumps(content['example'], ensure_ascii=False)}' "
            flag = sent if method == "POST" else f"{flag}{sent}"
        elif method == "POST":
            flag = f"--data-binary @windows.txt -H 'Content-Type: {kind}' "
    return f'curl {flag}"$COLLECTOR{address}{query}"'


def resolve(document: Node, node: Node) -> Node:
    """What a `$ref` names, or the node itself."""
    while "$ref" in node:
        found: Any = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def _parameter_row(parameter: Node) -> tuple[str, str, str]:
    schema = parameter.get("schema", {})
    text = parameter.get("description", "")
    if schema.get("default", "") != "":
        text += f" Default: `{schema['default']}`."
    if parameter.get("required") and parameter["in"] == "query":
        text += " Required."
    if parameter["in"] == "header":
        text += " A header."
    return parameter["name"], _type(schema), text


def _fields(document: Node, schema: Node, prefix: str) -> Iterator[tuple[str, str, str]]:
    for part in schema.get("allOf", []):
        if "$ref" in part:
            yield f"{prefix}…", _type(part), "All fields of this type."
        yield from _fields(document, part, prefix)
    for name, field in schema.get("properties", {}).items():
        yield f"{prefix}{name}", _type(field), _describe(field)
        inner = field
        while inner.get("type") == "array":
            inner = inner.get("items", {})
        for choice in (inner, *inner.get("anyOf", []), *inner.get("oneOf", [])):
            yield from _fields(document, choice, f"{prefix}{name}.")


def _describe(field: Node) -> str:
    text = str(field.get("description", ""))
    default = json.dumps(field.get("default", ""))
    return text if default == '""' else f"{text} Default: `{default}`.".strip()


def _type(schema: Node) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(choice) for choice in choices))
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _table(first: str, rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    lines = [f"| `{name}` | {kind} | {_cell(text)} |" for name, kind, text in rows]
    if lines:
        yield "\n".join([f"| {first} | type | meaning |", "|---|---|---|", *lines, ""])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
