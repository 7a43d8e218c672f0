"""The report of the doctor as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from sidelight import __version__
from sidelight_collector.doctor.checker import DoctorReport
from sidelight_collector.doctor.cost_estimate import ServiceCosts
from sidelight_collector.doctor.findings import FindingSeverity, format_count
from sidelight_model.terminal_width import escape_json

FORMAT: Final = 1
MAX_SHOWN: Final = 20
"""Findings of a kind that the text report shows; JSON has all of them."""


def to_document(report: DoctorReport) -> dict[str, Any]:
    """Build the JSON document that docs/doctor.md describes."""
    return {
        "format": FORMAT,
        "healthy": report.findings.is_healthy,
        "at": datetime.fromtimestamp(report.checked_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "store": {
            "where": report.location,
            "kind": report.kind,
            "format": report.format,
            "conditional_writes": report.conditional_writes,
        },
        "checked": {
            "contents": not report.is_quick,
            "days": report.days,
            "blocks": report.blocks,
            "segments": report.segments,
            "objects": report.objects,
            "bytes": report.total_bytes,
        },
        "counts": {severity.value: report.findings.counts[severity] for severity in FindingSeverity},
        "findings": [asdict(finding) for finding in report.findings],
        "left_out": {kind.value: number for kind, number in sorted(report.findings.omitted_counts.items())},
        "repaired": [asdict(done) for done in report.repairs],
        "services": [_service_to_json(service) for service in report.services],
        "prices": asdict(report.prices),
        "machine": {
            "version": __version__,
            "native": report.kernel.version if report.kernel.is_native else None,
        },
    }


def _service_to_json(service: ServiceCosts) -> dict[str, Any]:
    return {
        "service": service.service,
        "windows": service.windows,
        "bytes": service.total_bytes,
        "windows_per_day": round(service.windows_per_day, 1),
        "bytes_per_day": round(service.bytes_per_day, 1),
        "cost_per_month": {
            "stored_now": round(service.stored_now_cost, 6),
            "storage": round(service.storage_cost, 6),
            "requests": round(service.requests_cost, 6),
        },
    }


def render_json(report: DoctorReport) -> str:
    """Render the report as one JSON document that ends with a newline."""
    return escape_json(json.dumps(to_document(report), ensure_ascii=False, indent=1)) + "\n"


def render_text(report: DoctorReport) -> str:
    """Render the report as text lines, errors first."""
    return "".join(f"{line}\n" for line in _render_lines(report))


def _render_lines(report: DoctorReport) -> Iterator[str]:
    for done in report.repairs:
        yield f"{'repaired' if done.done else 'not repaired'}  {done.key}: {done.what}"
    for (severity, kind), group in groupby(report.findings, key=lambda item: (item.severity, item.kind)):
        findings = list(group)
        for at, finding in enumerate(findings[:MAX_SHOWN]):
            place = f"  {finding.key}" if finding.key else ""
            yield f"{severity}  {kind}{place}"
            yield f"    {finding.message}"
            if not at or finding.hint != findings[at - 1].hint:
                yield f"    -> {finding.hint}"
        more = len(findings) - MAX_SHOWN if len(findings) > MAX_SHOWN else 0
        if more:
            yield f"{severity}  {kind}: {more:,} more; --json has them"
    for kind, number in report.findings.omitted_counts.items():
        yield f"{kind}: {number:,} more that were only counted (--max-findings)"
    if report.services:
        yield from _render_services(report)
    yield _format_summary(report)


def _render_services(report: DoctorReport) -> Iterator[str]:
    prices = report.prices
    heads = ("service", "windows", "MB", "windows/day", "MB/day", "stored now", "storage", "requests")
    rows = [heads, *(_format_row(service) for service in report.services)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    yield ""
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([f"{row[0]:<{widths[0]}}", *cells])
    yield (
        "The last three are costs of a month: of what is stored now; of storage at the present rate, kept "
        f"{prices.raw_days}/{prices.hour_days}/{prices.day_days} days as windows, hours and days, "
        f"at {prices.per_gb_month:g} per GB; and of requests at {prices.per_1000_requests:g} per 1,000."
    )
    yield ""


def _format_row(service: ServiceCosts) -> Sequence[str]:
    return (
        service.service,
        f"{service.windows:,}",
        f"{service.total_bytes / 1e6:,.1f}",
        f"{service.windows_per_day:,.0f}",
        f"{service.bytes_per_day / 1e6:,.1f}",
        *(f"{cost:,.2f}" for cost in (service.stored_now_cost, service.storage_cost, service.requests_cost)),
    )


def _format_summary(report: DoctorReport) -> str:
    counts = report.findings.counts
    counts_text = ", ".join(format_count(counts[severity], severity.value) for severity in FindingSeverity)
    contents = ", ".join(
        format_count(number, noun)
        for number, noun in (
            (report.days, "day"),
            (report.blocks, "block"),
            (report.segments, "segment"),
            (report.objects, "object"),
        )
    )
    scope = " (sizes only)" if report.is_quick else ""
    return f"{report.location}{scope}: {contents}, {report.total_bytes / 1e6:,.1f} MB: {counts_text}"
