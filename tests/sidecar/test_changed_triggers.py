"""Trigger rules that change while their processes run, as annotations of a pod do."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sidelight_sidecar.captures.trigger_monitor import TriggerMonitor
from sidelight_sidecar.discovery.cgroup import Cgroups
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.triggers import TriggerRules


async def test_changed_rules_fire_ready_no_second_time_and_keep_the_cooldown() -> None:
    key, now = ProcessKey(os.getpid(), 1000), 0.0
    rules = TriggerRules(cpu_share=0.01, window_seconds=1.0, fires_on_ready=True, boost_seconds=1.0)
    context = SimpleNamespace(trigger_rules=rules)
    watch = SimpleNamespace(key=key, context=context, apply_trigger=lambda *_, **__: None)
    usage = SimpleNamespace(cpu_ns=0, rss_bytes=0)
    watcher: Any = SimpleNamespace(process_samplers=[watch], usage={key: usage})
    none: Any = SimpleNamespace(is_paused=False)
    metrics = SidecarMetrics()
    monitor = TriggerMonitor(
        TriggerRules(), watcher, none, none, Cgroups(), metrics, lambda: now, lambda: 10.0 + now
    )

    def count(trigger: str) -> float | None:
        return metrics.registry.get_sample_value("sidelight_sidecar_triggers_total", {"trigger": trigger})

    with socket.create_server(("127.0.0.1", 0)):
        for cores, cooldown_seconds in ((0, 600.0), (1, 700.0), (1, 800.0)):
            context.trigger_rules = replace(rules, cooldown_seconds=cooldown_seconds)
            for _ in range(5):
                now += 1.0
                usage.cpu_ns += cores * 10**9
                await monitor.tick()
            assert (count("ready"), count("cpu")) == (1, 0)
