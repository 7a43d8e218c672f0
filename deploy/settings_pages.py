"""Tables of the settings of each program, from the settings classes, for docs/settings/PROGRAM.md."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sidelight.settings import format_flag, format_variable, parse_byte_size
from sidelight_collector.doctor.settings import DoctorSettings as Doctor
from sidelight_collector.settings.collector import Settings as Collector
from sidelight_injector.settings import Settings as Injector
from sidelight_sidecar.agent.settings import AgentSettings as Agent
from sidelight_sidecar.settings import SidecarSettings as Sidecar

CHART = "chart"
"""Stands for a value of the chart that does not exist: the chart always sets the setting itself."""

Setting = dataclasses.Field[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The settings of one program.

    `groups` has titles with patterns of settings' names, in the order of the page. `chart_values` has the
    settings that the chart refuses below `chart_settings`, with the values that decide them. A program
    without `chart_settings` is a command that people run: it reads no variables. `defaults` has texts for
    defaults that depend on the machine.
    """

    program: str
    settings: type
    groups: Mapping[str, str]
    chart_values: Mapping[str, str] = field(default_factory=dict)
    chart_settings: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)


COLLECTOR = Page(
    program="collector",
    settings=Collector,
    groups={
        "Address and store": "listen path_prefix public_url port_file store.* s3_.* tls_.*",
        "Access": "write_tokens_file read_tokens_file allow_anonymous_.* read_(rules|proxy)_.* "
        "trusted_proxies allowed_hosts auth_.*",
        "Kubernetes": "kubernetes.* token_.* node_agents discovery.* attach_.*",
        "Connections": "max_connections (header|body|response|idle)_timeout_seconds",
        "Ingest": "flush_.* max_(pending|body|label|window_header)_bytes max_(receive|queue|future)_seconds "
        "max_(windows|stacks|depth|labels|age_days) dedup_.* decode_.* pyroscope_.* otlp_.* forward_.*",
        "Retention and compaction": "retention_.* compact_.* deletion_.* orphan_.*",
        "Queries": "query_.* max_(queries|waiting_queries|range_days) default_nodes "
        "max_(nodes|points|rows|cells|export_frames) answer_.* cache_.* engine.* core_.*",
        "Metrics from profiles": "profile_metrics_.*",
        "Comparisons": "comparison_.* max_verdict_.* prometheus_.*",
        "Deploys": "deploy.* alertmanager_.*",
        "Captures": "captures capture_.* timeline_recording_.*",
        "Links, notes, files, source code and agents": "links link_.* max_link_bytes max_notes_.* note_.* "
        "max_file_.* source_.* mcp",
        "Process": "role workers .*worker_.* shutdown_.* log_.*",
    },
    chart_values={
        "alertmanager_url": "collector.deploys.alertmanagers",
        "allow_anonymous_reads": "collector.auth.allowAnonymousReads",
        "allow_anonymous_writes": "collector.auth.allowAnonymousWrites",
        "attach_ca_file": "collector.tls.caKey",
        "attach_collector_url": CHART,
        "attach_image": "sidecar.image",
        "attach_namespaces": "kubernetes.attachNamespaces",
        "cache_dir": "collector.cache.enabled",
        "cache_disk_bytes": "collector.cache.bytes",
        "capture_tokens_file": "collector.auth.captureTokensSecret",
        "deploy_webhook_secret_file": "collector.deploys.webhookSecret",
        "deploy_webhook_url": "collector.deploys.webhookSecret",
        "discovery": "kubernetes.discovery",
        "discovery_namespaces": "kubernetes.namespaces",
        "kubernetes": "kubernetes.identity",
        "kubernetes_namespaces": "kubernetes.namespaces",
        "listen": CHART,
        "node_agents": "kubernetes.nodeAgents",
        "path_prefix": "collector.pathPrefix",
        "profile_metrics_file": "collector.profileMetrics.rules",
        "public_url": "collector.deploys.publicUrl",
        "read_proxy_groups_header": "collector.auth.proxy.groupsHeader",
        "read_proxy_header": "collector.auth.proxy.userHeader",
        "read_rules_file": "collector.auth.readRules",
        "read_tokens_file": "collector.auth.readTokensSecret",
        "role": "compactor.enabled",
        "s3_endpoint": "collector.store.s3.endpoint",
        "store": "collector.store",
        "tls_cert_file": "collector.tls",
        "tls_key_file": "collector.tls",
        "token_audience": "kubernetes.audience",
        "trusted_proxies": "collector.auth.proxy.trusted",
        "write_tokens_file": "collector.auth.writeTokensSecret",
    },
    chart_settings="collector.settings",
)
SIDECAR = Page(
    program="sidecar",
    settings=Sidecar,
    groups={
        "Processes": "pid match all include_children target_container max_processes scan_.* attach_.*",
        "Labels": "service version namespace pod container node label",
        "Sampling": (
            "(tasks_)?rate window_.* interval_.* jitter_.* on_demand mode max_(depth|stacks) pause_file"
        ),
        "Budget": "budget_.* max_stop_ms",
        "Triggers and pre-roll": "trigger_.* preroll_.*",
        "Captures": "capture.* timeline_recording_.* one_shot_token",
        "Collector": "collector token_file ca_.* spool_.* batch_.* send_.*",
        "HTTP endpoints": "listen allowed_hosts max_connections (header|body|response|idle)_timeout_seconds",
        "Process": "exit_.* shutdown_.* log_.*",
    },
    chart_values={
        "all": CHART,
        "ca_certificates": "sidecar.caBundle.pem",
        "ca_file": "sidecar.caBundle",
        "collector": "sidecar.collector",
        "listen": "sidecar.port",
        "namespace": CHART,
        "node": CHART,
        "pid": CHART,
        "pod": CHART,
        "service": CHART,
        "spool_dir": CHART,
        "token_file": "sidecar.serviceAccountToken.enabled",
        "version": CHART,
    },
    chart_settings="sidecar.settings",
    defaults={"pod": "host name"},
)
AGENT = Page(
    program="agent",
    settings=Agent,
    groups={
        "Node": "node kubernetes include_children max_processes scan_.* attach_.* label",
        **{title: names for title, names in SIDECAR.groups.items() if title not in ("Processes", "Labels")},
    },
    chart_values={
        "ca_certificates": CHART,
        "ca_file": "agent.caBundle",
        "collector": "agent.collector",
        "kubernetes": CHART,
        "listen": CHART,
        "node": CHART,
        "spool_dir": CHART,
        "token_file": CHART,
    },
    chart_settings="agent.settings",
)
INJECTOR = Page(
    program="injector",
    settings=Injector,
    groups={
        "Addresses": "listen status_listen max_.* (header|body|response|idle)_timeout_seconds drain_.*",
        "Kubernetes": "kubernetes namespace.* webhook_.*",
        "Certificates": "certificate_.* ca_(days|overlap_seconds)",
        "Sidecars": "sidecar_file ca_file native_sidecars exclude_namespace pod_security_.*",
        "Events and logs": "events.* log_.*",
    },
    chart_values={
        "ca_file": "collector.tls.caKey",
        "certificate_dir": "injector.certificates.kind",
        "certificate_secret": CHART,
        "events": "injector.events",
        "exclude_namespace": "injector.excludeNamespaces",
        "kubernetes": CHART,
        "listen": CHART,
        "namespace": CHART,
        "native_sidecars": "injector.nativeSidecars",
        "pod_security_default": "injector.podSecurity.default",
        "pod_security_exempt": "injector.podSecurity.exemptNamespaces",
        "sidecar_file": CHART,
        "status_listen": CHART,
        "webhook_name": CHART,
        "webhook_service": CHART,
    },
    chart_settings="injector.settings",
)
DOCTOR = Page(
    program="doctor",
    settings=Doctor,
    groups={
        "Store and report": "store.* s3_.* json quick probe orphan_.* max_.*",
        "Repair": "repair forget_lost offline",
        "Price": "price_.* retention_.* flush_.* collectors",
    },
)
PAGES = (COLLECTOR, SIDECAR, AGENT, INJECTOR, DOCTOR)

_UNITS = {"seconds": " s", "ms": " ms", "days": " days", "percent": " %", "rate": " Hz"}
"""Units by the last word of a setting's name."""


def render(page: Page) -> str:
    """Return the tables of a page. A setting that is in no group, or in two, raises ValueError."""
    fields: tuple[Setting, ...] = dataclasses.fields(page.settings)
    groups = {title: _select(fields, patterns) for title, patterns in page.groups.items()}
    for one in fields:
        if (count := sum(group.count(one) for group in groups.values())) != 1:
            problem = f"{one.name} is in {count} groups of the {page.program}"
            raise ValueError(f"{problem}: give it one in deploy/settings_pages.py")
    return "\n".join(_table(page, title, group) for title, group in groups.items())


def _select(fields: tuple[Setting, ...], patterns: str) -> list[Setting]:
    return [one for pattern in patterns.split() for one in fields if re.fullmatch(pattern, one.name)]


def _table(page: Page, title: str, group: list[Setting]) -> str:
    rows = [
        f"|{'<br>'.join(_names(page, one))}|{_default(page, one)}|{_cell(one.metadata['help'])}|"
        for one in group
    ]
    return "\n".join([f"## {title}", "", "|setting|default|meaning|", "|---|---|---|", *rows]) + "\n"


def _names(page: Page, setting: Setting) -> list[str]:
    value = page.chart_values.get(setting.name, f"{page.chart_settings}.{setting.name}")
    form = setting.metadata["metavar"] or ""
    option = f"{format_flag(setting)} {form}" if "=" in form else format_flag(setting)
    if not page.chart_settings:
        return [f"`{option}`"]
    chart = f"*{CHART}*" if value == CHART else f"`{value}`"
    return [f"`{option}`", f"`{format_variable(setting)}`", chart]


def _default(page: Page, setting: Setting) -> str:
    """Return the default as a user writes it, with its unit."""
    default = setting.default
    if setting.metadata["required"]:
        return "required"
    if setting.name in page.defaults:
        return page.defaults[setting.name]
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, int) and setting.metadata["read"] is parse_byte_size:
        return _format_size(default)
    if isinstance(default, int | float):
        return f"{default:.10g}{_UNITS.get(setting.name.rpartition('_')[2], '')}"
    if isinstance(default, tuple):
        return "<br>".join(f"`{value}`" for value in default)
    return f"`{default}`" if isinstance(default, str) and default else ""


def _format_size(count: int) -> str:
    for letter, factor in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
        if count and count % factor == 0:
            return f"{count // factor}{letter}"
    return str(count)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
