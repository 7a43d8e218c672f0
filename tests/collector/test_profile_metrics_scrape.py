"""Metrics from profiles as a real Prometheus scrapes them, alerts on them, and checks their form."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import yaml

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.profile_metrics.rule_file import parse_rules
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Running, Serve
from tests.collector.fake_sidecars import until
from tests.collector.prometheuses import prometheus
from tests.processes import eventually

RULES = """
groups:
  - name: shop
    interval: 1m
    query_offset: 1s
    rules:
      - record: shop_json_cores
        selector: '{service="shop"}'
        function: json\\..*
        by: [service]
"""
ALERTS = """
groups:
  - name: profiles
    rules:
      - alert: JsonIsExpensive
        expr: max without (instance) (shop_json_cores) > 0.5
"""
READ_TOKEN = "reader-token"
AUTHORIZED = {"Authorization": f"Bearer {READ_TOKEN}"}


def find_promtool() -> str:
    """The program that checks what Prometheus reads."""
    path = shutil.which("promtool")
    assert path, "these tests need Debian's prometheus: run `make tools`"
    return path


async def send_windows(collector: Running, make_window: Callable[..., Window], prefix: str = "") -> None:
    """Send windows with 0.9 cores in `json.dumps`, so that the last minutes have them, and the next four."""
    start_ns = time.time_ns() - 600 * 10**9
    windows = [
        make_window(
            "main (app.py:1);dumps (json/__init__.py:2) 900 | main (app.py:1) 100",
            start_ns=start_ns + at * 10**10,
            duration_ns=10**10,
        )
        for at in range(84)
    ]
    sent = await collector.ask("POST", f"{prefix}/api/v1/windows", encode_windows(windows))
    assert sent.status == 200, sent.body


async def test_prometheus_scrapes_the_metrics_and_an_alert_fires(
    serving: Serve, make_window: Callable[..., Window], tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "alerts.yaml").write_text(ALERTS)
    tokens = BearerTokens(read=(READ_TOKEN,))
    with ExitStack() as stack:
        async with serving(
            MemoryStore(), tokens, profile_metrics_file=tmp_path / "rules.yaml", path_prefix="/profiles"
        ) as collector:
            await send_windows(collector, make_window, "/profiles")
            assert (await collector.ask("GET", "/metrics/profiles")).status == 401
            text = await collector.ask("GET", "/metrics/profiles", None, AUTHORIZED)
            assert text.status == 200, text.body
            assert b'shop_json_cores{service="shop"} 0.9\n' in text.body
            checked = await asyncio.to_thread(
                subprocess.run,
                [find_promtool(), "check", "metrics"],
                input=text.body,
                capture_output=True,
                timeout=60,
            )
            assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

            config = {
                "global": {"scrape_interval": "5s", "scrape_timeout": "5s", "evaluation_interval": "1s"},
                "rule_files": [str(tmp_path / "alerts.yaml")],
                "scrape_configs": [
                    {
                        "job_name": "profiles",
                        "metrics_path": "/metrics/profiles",
                        "honor_labels": True,
                        "authorization": {"credentials": READ_TOKEN},
                        "static_configs": [{"targets": [f"127.0.0.1:{collector.port}"]}],
                    }
                ],
            }
            server = await asyncio.to_thread(
                stack.enter_context, prometheus(tmp_path / "prometheus", yaml.safe_dump(config))
            )

            def is_firing() -> bool:
                with urllib.request.urlopen(f"{server.url}/api/v1/alerts", timeout=60) as answer:
                    alerts = json.load(answer)["data"]["alerts"]
                return [
                    (one["labels"]["alertname"], one["labels"]["service"], one["state"]) for one in alerts
                ] == [("JsonIsExpensive", "shop", "firing")]

            await asyncio.to_thread(eventually, "the alert fires", is_firing)


def test_prometheus_accepts_the_files_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    rules, scrape, alerts = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    names = {rule.record for group in parse_rules(rules) for rule in group.rules}
    assert {name for name in names if name in alerts} == {"shop_json_cores"}
    for check, text in (("config", scrape), ("rules", alerts)):
        (tmp_path / check).write_text(text)
        argv = [find_promtool(), "check", check, str(tmp_path / check)]
        checked = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_a_changed_file_of_rules_is_used_and_a_faulty_one_is_not(
    serving: Serve, make_window: Callable[..., Window], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    async with serving(
        MemoryStore(), profile_metrics_file=rules, auth_check_interval_seconds=0.05
    ) as collector:
        await send_windows(collector, make_window)

        async def has(text: str, path: str = "/metrics/profiles") -> bool:
            return text.encode() in (await collector.ask("GET", path)).body

        assert await has("shop_json_cores")
        rules.write_text(RULES.replace("json_cores", "dumps_cores"))
        await until("the new rules are used", lambda: has('shop_dumps_cores{service="shop"} 0.9'))
        rules.write_text(RULES.replace("json_cores", "json_seconds"))
        await until("readiness names the problem", lambda: has("file of profile metrics", "/readyz"))
        assert await has("shop_dumps_cores")
        assert await has('sidelight_profile_rule_reloads_total{outcome="failed"}', "/metrics")


async def test_without_rules_the_path_says_what_to_configure(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        answer = await collector.ask("GET", "/metrics/profiles")
        assert (answer.status, answer.reason) == (404, "not_found")
        assert "--profile-metrics-file" in answer.json["hint"]
