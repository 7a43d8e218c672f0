"""The OpenAPI document, held against the routes and their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from yarl import URL

from sidelight_collector.auth.authorizer import PYROSCOPE_PATHS
from sidelight_collector.auth.otlp_errors import OTLP_PATH
from sidelight_collector.http.api.parameters import PARAMETERS
from sidelight_collector.http.api.routes import PREFIX
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import FURTHER_STATES
from sidelight_model.window import Quality
from tests.collector.api_client import Client, document, serving
from tests.collector.stored_windows import stored, window
from tests.tools.site import read_page

DOCUMENT = document()
WRITES = {
    *(("/api/v1/windows", "post"), ("/api/v1/links", "post")),
    *((f"/api/v1/files/{name}", "post") for name in ("flamegraph", "compare")),
    *((path, "post") for path in (*PYROSCOPE_PATHS, OTLP_PATH)),
}
"""Documented here, served by ingest and by links."""
CAPTURES = {
    (path, method)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if {"captures", "cluster", "deploys", "notes", "prometheus", "pyroscope"} & set(operation["tags"])
}
"""Documented here, held to it in test_captures_api.py, test_discovery_api.py, test_deploys_api.py,
test_notes_api.py, test_profile_metrics_scrape.py and test_grafana_queries.py."""
PATHS: Mapping[str, Any] = {
    path: operations["get"]
    for path, operations in DOCUMENT["paths"].items()
    if "get" in operations and (path, "get") not in CAPTURES
}


def resolved(node: Any) -> Any:
    """What a `$ref` points to, or the node itself."""
    while isinstance(node, dict) and "$ref" in node:
        found: Any = DOCUMENT
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def check(answer: object, schema: Any) -> None:
    whole = {"components": DOCUMENT["components"], **schema}
    jsonschema.Draft202012Validator(whole).validate(answer)


def parameters(path: str, where: str) -> Mapping[str, Any]:
    found = [resolved(one) for one in PATHS[path].get("parameters", [])]
    return {one["name"]: one for one in found if one["in"] == where}


def filled(path: str) -> str:
    names = parameters(path, "path")
    return re.sub(r"{(\w+)}", lambda found: str(names[found[1]]["example"]), path)


def two_sided(path: str) -> dict[str, str]:
    """Of the shop of these tests, a service with two versions where an answer has two sides."""
    always = ("/compare", "/verdict", "/export/compare")
    return {"query": 'service="shop"'} if path.removeprefix(PREFIX) in always else {}


def shop() -> ObjectStore:
    stacks = "main (a.py:1);wait (a.py:5);[idle] 9 | main (a.py:1);work (b.py:7) 6 | main (a.py:1);[gil] 4"
    command = Quality(
        mode="command",
        sampler="py-spy 0.4.3",
        missing_states=("gil", "idle", *FURTHER_STATES),
        truncated=3,
    )
    return stored(
        [
            window(stacks),
            window(stacks, version="2", quality=command),
            window("other 1", service="cart", team="a"),
        ]
    )


def test_the_document_is_openapi_3_1_whose_schemas_are_json_schema() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    operations = [one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()]
    assert len(operations) == len(set(operations))


def test_every_reference_in_the_document_leads_somewhere_and_everything_is_referred_to() -> None:
    text = (
        Path(__file__).parents[2].joinpath("collector/sidelight_collector/http/api/openapi.json").read_text()
    )
    refs = set(re.findall(r'"\$ref": "(#/[^"]+)"', text))
    for ref in refs:
        assert resolved({"$ref": ref})
    for kind in ("schemas", "parameters", "responses", "headers"):
        for name in DOCUMENT["components"][kind]:
            assert f"#/components/{kind}/{name}" in refs


async def test_every_route_is_in_the_document_and_the_document_has_no_other() -> None:
    async with serving(MemoryStore()) as client:
        assert client.app is not None
        served = {
            (route.resource.canonical, route.method.lower())
            for route in client.app.router.routes()
            if route.resource is not None
            and route.method != "HEAD"
            and route.resource.canonical.startswith(PREFIX)
        }
    documented = {(path, method) for path, one in DOCUMENT["paths"].items() for method in one}
    assert served == documented - WRITES - CAPTURES


@pytest.mark.parametrize("path", PATHS)
def test_the_parameters_of_a_path_are_those_documented(path: str) -> None:
    assert set(PARAMETERS[path.removeprefix(PREFIX)]) == set(parameters(path, "query"))


@pytest.mark.parametrize("path", PATHS)
async def test_every_documented_parameter_is_accepted_as_its_example_has_it(path: str) -> None:
    known = parameters(path, "query")
    async with serving(shop()) as client:
        for name, parameter in known.items():
            given = {name: str(parameter["example"])}
            if "baseline" in known:
                given = {"query": 'service="shop"', **given}
            async with client.get(filled(path), params=given) as response:
                assert response.status == 200, await response.text()
        together = {name: str(parameter["example"]) for name, parameter in known.items()}
        async with client.get(filled(path), params=together) as response:
            assert response.status == 200, await response.text()


@pytest.mark.parametrize("path", PATHS)
async def test_a_parameter_left_out_means_what_the_document_says(path: str) -> None:
    async with serving(shop()) as client:
        plain = await body(client, path, two_sided(path))
        for name, parameter in parameters(path, "query").items():
            default = resolved(parameter["schema"]).get("default", parameter["schema"].get("default"))
            if default is not None:
                assert await body(client, path, {**two_sided(path), name: str(default)}) == plain


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("holding", ["a shop", "nothing"])
async def test_an_answer_is_as_the_document_describes_it(path: str, holding: str) -> None:
    content = resolved(PATHS[path]["responses"]["200"])["content"]
    async with serving(shop() if holding == "a shop" else MemoryStore()) as client:
        async with client.get(filled(path), params=two_sided(path)) as response:
            assert response.status == 200
            assert response.content_type in content
            if response.content_type == "application/json":
                check(await response.json(), content["application/json"]["schema"])
        if "speedscope" in resolved(parameters(path, "query").get("format", {})).get("schema", {}).get(
            "enum", ()
        ):
            speedscope = {**two_sided(path), "format": "speedscope"}
            async with client.get(filled(path), params=speedscope) as response:
                check(await response.json(), content["application/json"]["schema"])
        if "baseline" in parameters(path, "query") and "application/json" in content:
            sides = {"baseline": 'version="1"', "comparison": 'version="2"'}
            async with client.get(filled(path), params=sides) as response:
                check(await response.json(), content["application/json"]["schema"])


@pytest.mark.parametrize("path", PATHS)
async def test_a_refusal_is_as_the_document_describes_it(path: str) -> None:
    responses = PATHS[path]["responses"]
    url = f"{filled(path)}?unknown=1"
    async with serving(MemoryStore()) as client, client.get(url) as response:
        assert response.status == 400
        check(await response.json(), resolved(responses["400"])["content"]["application/json"]["schema"])


def test_examples_are_as_their_schemas_say() -> None:
    count = 0
    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            for response in map(resolved, operation["responses"].values()):
                for content in response.get("content", {}).values():
                    if "example" in content:
                        check(content["example"], content["schema"])
                        count += 1
    assert count > len(PATHS)


async def test_the_document_is_served() -> None:
    async with serving(MemoryStore()) as client, client.get("/api/v1/openapi.json") as response:
        assert await response.json() == DOCUMENT


def test_the_reference_has_each_operation_with_an_example_and_its_parameters() -> None:
    page = read_page(Path(__file__).parents[2] / "docs" / "api-reference.md")
    shared = page.partition("\n## Shared parameters\n")[2].partition("\n## ")[0]
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            section = page.partition(f"\n### {method.upper()} {path}\n")[2].partition("\n### ")[0]
            assert "    curl " in section, f"{method} {path} has no example"
            for parameter in map(resolved, operation.get("parameters", [])):
                row = f"| `{parameter['name']}` |"
                assert row in section or (f"`{parameter['name']}`" in section and row in shared)
    for name in DOCUMENT["components"]["schemas"]:
        assert f"\n### {name}\n" in page


async def test_the_examples_of_the_reference_that_read_are_answered() -> None:
    page = read_page(Path(__file__).parents[2] / "docs" / "api-reference.md")
    section = page.partition("\n## Read profiles\n")[2].partition("\n## ")[0]
    addresses = re.findall(r'^    curl "\$COLLECTOR(.*)"$', section, re.MULTILINE)
    assert len(addresses) == len(PATHS)
    async with serving(shop()) as client:
        for address in addresses:
            async with client.get(URL(address, encoded=True)) as response:
                assert response.status == 200, address


async def body(client: Client, path: str, given: Mapping[str, str]) -> bytes:
    async with client.get(filled(path), params=given) as response:
        assert response.status == 200, await response.text()
        return await response.read()
