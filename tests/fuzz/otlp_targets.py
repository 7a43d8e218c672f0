"""OpenTelemetry profiles, in Protocol Buffers and JSON, read natively and in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from sidelight_collector.ingest.otlp.otlp_parsing import parse_otlp
from sidelight_collector.ingest.validation import ReceivedRequest
from tests.fuzz.pyroscope_targets import INGEST_LIMITS, compare_kernels
from tests.fuzz.targets import NOW_NS, Target

_RECORDED: Final = Path(__file__).parent.parent / "collector" / "otlp"
_START_NS: Final = NOW_NS - 10**10
_JSON: Final = json.dumps(
    {
        "resourceProfiles": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeProfiles": [
                    {
                        "scope": {"name": "spy"},
                        "profiles": [
                            {
                                "sampleType": {"typeStrindex": 1, "unitStrindex": 2},
                                "samples": [{"stackIndex": 1, "values": ["7"], "attributeIndices": [1]}],
                                "timeUnixNano": str(_START_NS),
                                "durationNano": "1000000000",
                                "period": "10000000",
                            }
                        ],
                    }
                ],
            }
        ],
        "dictionary": {
            "stringTable": ["", "cpu", "nanoseconds", "main", "a.py"],
            "functionTable": [{}, {"nameStrindex": 3, "filenameStrindex": 4}],
            "locationTable": [{}, {"lines": [{"functionIndex": 1, "line": "3"}]}],
            "stackTable": [{}, {"locationIndices": [1]}],
            "attributeTable": [{}, {"keyStrindex": 3, "value": {"stringValue": "x"}}],
        },
    }
).encode()


def run_otlp(data: bytes) -> str:
    """The first byte says whether the rest is JSON."""
    is_json = bool(data and data[0] & 1)
    request = ReceivedRequest(data[1:], "", {}, NOW_NS)
    return compare_kernels(lambda: parse_otlp(request, INGEST_LIMITS, is_json=is_json))


TARGETS: Final = (
    Target(
        "otlp",
        (
            *(b"\0" + file.read_bytes() for file in sorted(_RECORDED.glob("*.bin"))),
            b"\1" + _JSON,
        ),
        run_otlp,
        (b"\x0a\x02", b"\x12\x02", b"\x22\x01\x01", b"\x29", b'"sample":[]', b'"values":[1]', b"-1", b"{}"),
    ),
)
