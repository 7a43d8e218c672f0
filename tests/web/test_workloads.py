"""Pods that nobody profiles, on the pages; what is seen of the cluster was written by another collector."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from playwright.sync_api import expect

from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterCache
from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind, get_object_key, parse_object
from sidelight_collector.kubernetes_discovery.rollouts import Rollout
from sidelight_collector.kubernetes_discovery.shared_state import (
    ClusterSnapshot,
    SharedClusterState,
    WatchProblem,
)
from sidelight_collector.storage.backends.directory import DirectoryStore
from tests.collector.clusters import pod
from tests.processes import eventually
from tests.web.conftest import Open, Serve
from tests.web.profiles import AFTER, send, windows
from tests.web.rules import small_controls, violations_in_both_themes

MARKUP = "<img src=x onerror=alert(1)>"


def seen(folder: Path, *missing: WatchProblem) -> str:
    """Write what a collector that watches this cluster sees; a kubeconfig for one that does not."""
    book = ClusterCache(100)
    items = [
        pod("shop-1", sidecar="running"),
        pod("shop-2", notes={"sidelight.dev/source-url": "https://git.example/shop/{file}"}),
        pod("shop-3", notes={"sidelight.dev/status": f"skipped: {MARKUP}"}),
        pod("lone-1", owner="lone", sidecar="waiting", reason="CrashLoopBackOff", restarts=3),
    ]
    for item in items:
        book.apply(ResourceKind.PODS, "ADDED", get_object_key(item), parse_object(ResourceKind.PODS, item))
    share = SharedClusterState(DirectoryStore(folder / "store"), 3600, 100)
    assert share.lease.try_acquire()
    share.put_snapshot(ClusterSnapshot("watching", time.time(), book.get_inventory(), missing))
    began = time.time() - 400
    share.add_rollouts(
        {("u", 2): Rollout("u", 2, "shop", "Deployment", "shop", "shop", "v2", began, began + 60)}
    )
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return str(config)


def test_pages_say_which_pods_lack_a_sidecar_and_what_to_do(
    serve: Serve, open_page: Open, tmp_path: Path, axe: str
) -> None:
    running = serve("--kubernetes", seen(tmp_path), "--allow-anonymous-writes")
    send(running.url, windows("shop", "v2", AFTER, minutes_ago=1, namespace="shop"))
    page = open_page(running.url)
    attention = page.get_by_role("region", name="What needs attention")
    expect(attention).to_contain_text("lone (shop) 1/1 pod: sidecar not running")
    attention.get_by_role("link", name="shop (shop) 2/3 pods: no sidecar").click()
    expect(page.get_by_label("Search workloads")).to_have_value("shop")
    table = page.get_by_role("region", name="Table of workloads")
    shop = table.get_by_role("row").filter(has_text="shop/shop")
    expect(shop).to_contain_text("2 no sidecar")
    expect(shop).to_contain_text("sidelight 0.1.0 gil")
    numbers = shop.locator("td.number")
    expect(numbers).to_have_text(["0/3", "0.38 %, max 210 µs", "0 %", re.compile(r"^\d+ (s|min) ago$")])
    shop.get_by_role("button", name="Copy command").click()
    copied = lambda: page.evaluate("navigator.clipboard.readText()")  # noqa: E731
    eventually("it is copied", lambda: "rollout restart deployment/shop" in copied())
    assert violations_in_both_themes(page, axe) == {}
    assert small_controls(page) == []
    page.get_by_role("button", name="not running (1)").click()
    expect(table.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="all pods").click()
    shop.get_by_role("button", name="Attach now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Attach to pods without a sidecar")).to_be_checked()
    expect(dialog.get_by_label("Pods", exact=True)).to_have_value("chosen")
    assert violations_in_both_themes(page, axe) == {}
    page.keyboard.press("Escape")
    page.locator(".brand").click()
    page.get_by_role("link", name="shop", exact=True).click()
    page.get_by_text("2/3 pods: no sidecar").click()
    table = page.get_by_role("region", name="Table of pods")
    expect(table).to_contain_text("rollout restart deployment/shop")
    expect(table).to_contain_text(MARKUP)
    expect(page.get_by_text("revision 2 (v2): rolled out from")).to_be_visible()
    expect(page.locator(".plot .rollout")).to_have_count(1)
    page.get_by_role("button", name="Unfold the timeline").click()
    expect(page.locator("button.flag").first).to_have_attribute(
        "title", re.compile(r"v2: first seen .*, rolled out from .* to ")
    )
    # An annotation of the pods names their source code.
    for address in ("?view=table", "/compare?baseline=match:&comparison=version:v2&view=table"):
        page.goto(f"{running.url}/s/shop{address}")
        row = page.locator(".panel tbody tr").filter(has_text="handle")
        expect(row.get_by_role("link", name="Source")).to_have_attribute(
            "href", "https://git.example/shop/shop/views.py"
        )


def test_a_right_that_is_missing_is_told_and_without_a_cluster_no_pods_are_listed(
    shop: str, serve: Serve, open_page: Open, tmp_path: Path
) -> None:
    may_not = "the collector may not list deployments.apps in all namespaces"
    config = seen(
        tmp_path, WatchProblem("deployments", "apps", "list", "", may_not, "kubectl create clusterrole x")
    )
    running = serve("--kubernetes", config, "--allow-anonymous-writes")
    send(running.url, windows("shop", "v2", AFTER))
    page = open_page(running.url)
    expect(page.get_by_text(may_not)).to_contain_text("kubectl create clusterrole x")
    # Without a cluster no pods are listed.
    page = open_page(f"{shop}/s/shop")
    expect(page.get_by_role("slider")).to_be_visible()
    expect(page.locator(".pods")).to_have_count(0)
