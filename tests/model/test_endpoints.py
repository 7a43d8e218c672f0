"""Endpoints of stacks: of recorded services whose handlers are known, and of stacks written here."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.endpoints.endpoint_search import find_endpoint
from sidelight_model.endpoints.framework_rules import FRAMEWORK_RULES
from sidelight_model.folded import parse_folded, split_stack
from sidelight_model.frames import strip_line_number
from tests.services.endpoints.shops import RECORDINGS, SHOPS
from tests.services.endpoints.truth import find_handler, is_same_function, shorten_name

RECORDED = sorted(RECORDINGS.glob("*.folded"))
DJANGO = "_get_response (django/core/handlers/base.py)"
FLASK = "Flask.dispatch_request (flask/app.py)"
BELOW = st.lists(
    st.sampled_from(["burn (work.py:3)", "get (redis/client.py:9)", "wrapper (shop.py:1)", "(truncated)"])
)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_handler_of_each_recorded_stack_is_found(path: Path) -> None:
    shop = SHOPS[path.stem.rpartition("-")[0]]
    found = set()
    for stack in parse_folded(path.read_text()):
        frames = split_stack(stack)
        handler, endpoint = find_handler(frames, shop), find_endpoint(frames)
        if endpoint is None:
            assert handler is None, stack
        elif handler is None:
            assert endpoint.name in shop.helpers, stack
        else:
            assert is_same_function(endpoint.name, handler), (endpoint, stack)
            assert endpoint.framework in shop.endpoints[handler].split("/"), (endpoint, stack)
            found.add(handler)
    assert {*map(shorten_name, found)} == {*map(shorten_name, shop.endpoints)}


def test_every_framework_and_both_kinds_of_names_are_recorded() -> None:
    frameworks = {
        name for shop in SHOPS.values() for names in shop.endpoints.values() for name in names.split("/")
    }
    assert {rule.framework for rule in FRAMEWORK_RULES} == frameworks
    assert {path.stem for path in RECORDED} == {
        f"{name}-{python}" for name in SHOPS for python in ("3.10", "3.12")
    }


@pytest.mark.parametrize(
    ("stack", "endpoint"),
    [
        # a handler in a third-party package, behind that framework's own decorators
        (
            f"{DJANGO};AdminSite.admin_view.<locals>.inner "
            "(django/contrib/admin/sites.py);_wrapper_view (django/utils/decorators.py);"
            "ModelAdmin.changelist_view (django/contrib/admin/options.py);get_queryset (shop/admin.py)",
            "django ModelAdmin.changelist_view (django/contrib/admin/options.py)",
        ),
        (
            f"{FLASK};show_metrics (prometheus_exporter/views.py);dump (json/__init__.py)",
            "flask show_metrics (prometheus_exporter/views.py)",
        ),
        # what a view set inherits is all that the stack tells
        (
            f"{DJANGO};view (rest_framework/viewsets.py);dispatch "
            "(rest_framework/views.py);list (rest_framework/mixins.py);get_queryset (shop/views.py)",
            "django list (rest_framework/mixins.py)",
        ),
        # what Django and REST framework do around the view
        (
            f"{DJANGO};SimpleTemplateResponse.render (django/template/response.py)",
            "",
        ),
        (
            f"{DJANGO};view (django/views/generic/base.py);"
            "APIView.dispatch (rest_framework/views.py);initial (rest_framework/views.py);"
            "may_see (shop/rights.py)",
            "",
        ),
        (f"{DJANGO};process_view (shop/hooks.py);burn (work.py)", ""),
        # a handler that calls itself, and one that runs a task in its own process
        (
            f"{FLASK};tree (shop.py:3);tree (shop.py:4);tree (shop.py:4)",
            "flask tree (shop.py)",
        ),
        (
            f"{FLASK};pay (shop.py);Task.apply (celery/app/task.py);"
            "build_tracer.<locals>.trace_task (celery/app/trace.py);send_receipt (tasks.py)",
            "flask pay (shop.py)",
        ),
        # a task of a class that calls `run` itself
        (
            "build_tracer.<locals>.trace_task (celery/app/trace.py);ContextTask.__call__ (shop/celery.py);"
            "send_receipt (shop/tasks.py)",
            "celery send_receipt (shop/tasks.py)",
        ),
        # a decorator before it calls the handler, and one that calls a library
        (f"{FLASK};limited.<locals>.wrapper (shop/limits.py)", ""),
        (
            f"{FLASK};limited.<locals>.wrapper (shop/limits.py);Redis.get (redis/client.py)",
            "",
        ),
        # a middleware between two frames of the framework, and the time of its own
        (
            "app (starlette/routing.py);handle (starlette/routing.py);Audit.__call__ (shop/audit.py);"
            "Route.handle (starlette/routing.py);app (starlette/routing.py);home (shop/views.py)",
            "starlette home (shop/views.py)",
        ),
        ("Router.app (starlette/routing.py);Audit.__call__ (shop/audit.py);check (shop/audit.py)", ""),
        # installed elsewhere, escaped, and cut
        ("dispatch_request (venv/site-packages/flask/app.py:9);home%3B (a%3Bb.py:3)", "flask home; (a;b.py)"),
        ("dispatch_request (flask/app.py:9);(truncated);home (shop.py:3)", ""),
        ("dispatch_request (my_flask/app.py);home (shop.py)", ""),
        ("<module> (shop.py:3);main (shop.py:9)", ""),
        ("", ""),
    ],
)
def test_the_handler_is_the_first_frame_that_is_no_part_of_the_framework(stack: str, endpoint: str) -> None:
    found = find_endpoint(stack.split(";"))
    assert (f"{found.framework} {found.name}" if found else "") == endpoint


@given(st.sampled_from(RECORDED), st.data(), BELOW)
def test_neither_lines_nor_the_frames_below_a_handler_change_the_endpoint(
    path: Path, data: st.DataObject, below: list[str]
) -> None:
    stacks = [split_stack(stack) for stack in parse_folded(path.read_text())]
    frames = data.draw(st.sampled_from([frames for frames in stacks if find_endpoint(frames)]))
    assert find_endpoint([*map(strip_line_number, frames), *below]) == find_endpoint(frames)
