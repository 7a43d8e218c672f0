"""What the doctor has to say, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from sidelight import __version__
from sidelight_collector.doctor.checker import Report
from sidelight_collector.doctor.cost_estimate import Service
from sidelight_collector.doctor.findings import Severity, counted

FORMAT: Final = 1
SHOWN: Final = 20
"""Findings of a kind that a person is shown; JSON has them all."""


def document(report: Report) -> dict[str, Any]:
    """The JSON document that docs/doctor.md describes."""
    return {
        "format": FORMAT,
        "healthy": report.findings.healthy,
        "at": datetime.fromtimestamp(report.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "store": {
            "where": report.where,
            "kind": report.kind,
            "format": report.format,
            "conditional_writes": report.conditional_writes,
        },
        "checked": {
            "contents": not report.quick,
            "days": report.days,
            "blocks": report.blocks,
            "segments": report.segments,
            "objects": report.objects,
            "bytes": report.bytes,
        },
        "counts": {severity.value: report.findings.counts[severity] for severity in Severity},
        "findings": [asdict(finding) for finding in report.findings],
        "left_out": {kind.value: number for kind, number in sorted(report.findings.left_out.items())},
        "repaired": [asdict(done) for done in report.repaired],
        "services": [_service(service) for service in report.services],
        "prices": asdict(report.prices),
        "machine": {
            "version": __version__,
            "native": report.kernel.version if report.kernel.native else None,
        },
    }


def _service(service: Service) -> dict[str, Any]:
    return {
        "service": service.service,
        "windows": service.windows,
        "bytes": service.bytes,
        "windows_per_day": round(service.windows_per_day, 1),
        "bytes_per_day": round(service.bytes_per_day, 1),
        "cost_per_month": {
            "stored_now": round(service.stored_cost, 6),
            "storage": round(service.storage_cost, 6),
            "requests": round(service.requests_cost, 6),
        },
    }


def as_json(report: Report) -> str:
    """One document, ended by a newline."""
    return json.dumps(document(report), ensure_ascii=False, indent=1) + "\n"


def as_text(report: Report) -> str:
    """Short lines, the worst first."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for done in report.repaired:
        yield f"{'repaired' if done.done else 'not repaired'}  {done.key}: {done.what}"
    for (severity, kind), group in groupby(report.findings, key=lambda each: (each.severity, each.kind)):
        found = list(group)
        for at, finding in enumerate(found[:SHOWN]):
            place = f"  {finding.key}" if finding.key else ""
            yield f"{severity}  {kind}{place}"
            yield f"    {finding.message}"
            if not at or finding.hint != found[at - 1].hint:
                yield f"    -> {finding.hint}"
        more = len(found) - SHOWN if len(found) > SHOWN else 0
        if more:
            yield f"{severity}  {kind}: {more:,} more; --json has them"
    for kind, number in report.findings.left_out.items():
        yield f"{kind}: {number:,} more that were only counted (--max-findings)"
    if report.services:
        yield from _services(report)
    yield _summary(report)


def _services(report: Report) -> Iterator[str]:
    prices = report.prices
    heads = ("service", "windows", "MB", "windows/day", "MB/day", "stored now", "storage", "requests")
    rows = [heads, *(_row(service) for service in report.services)]
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


def _row(service: Service) -> Sequence[str]:
    return (
        service.service,
        f"{service.windows:,}",
        f"{service.bytes / 1e6:,.1f}",
        f"{service.windows_per_day:,.0f}",
        f"{service.bytes_per_day / 1e6:,.1f}",
        *(f"{cost:,.2f}" for cost in (service.stored_cost, service.storage_cost, service.requests_cost)),
    )


def _summary(report: Report) -> str:
    counts = report.findings.counts
    found = ", ".join(counted(counts[severity], severity.value) for severity in Severity)
    there = ", ".join(
        counted(number, noun)
        for number, noun in (
            (report.days, "day"),
            (report.blocks, "block"),
            (report.segments, "segment"),
            (report.objects, "object"),
        )
    )
    how = " (sizes only)" if report.quick else ""
    return f"{report.where}{how}: {there}, {report.bytes / 1e6:,.1f} MB: {found}"
