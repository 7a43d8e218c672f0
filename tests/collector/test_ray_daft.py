"""Daft on a Ray cluster of two nodes reads the objects of a real S3 server: its sums are the collector's."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

from sidelight_collector.storage.backends.s3 import S3Store
from tests.collector.stored_windows import stored
from tests.collector.test_scaling_page import answers, closed, corpus, rounded
from tests.processes import S3Server, made

PROGRAM = Path(__file__).parent / "ray_daft" / "program.py"
SECONDS = 600.0
OPTIONS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # stays on loopback: other addresses are not looked up
    "RAY_USAGE_STATS_ENABLED": "0",
    "DAFT_ANALYTICS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
}


def test_two_processes_of_daft_on_ray_say_the_same(
    s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    python = made("ray-daft/") / "bin" / "python"
    # A past day in a block, and one without a manifest in segments, with some windows in two of them.
    buckets = [new_bucket(), new_bucket()]
    blocks, segments = (S3Store(bucket, endpoint=s3_server.endpoint) for bucket in buckets)
    closed(blocks)
    windows = corpus()
    stored(*(windows[at : at + 8] for at in range(0, len(windows), 5)), store=segments)
    patterns = [
        f"s3://{bucket}/v1/{level}/2026-11-21/*/{part}.parquet"
        for bucket, level in zip(buckets, ("raw", "l0"), strict=True)
        for part in ("samples", "stacks")
    ]
    said = subprocess.run(
        [python, PROGRAM, "shop", *patterns],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={
            **s3_server.environment,
            **OPTIONS,
            "AWS_ENDPOINT_URL": s3_server.endpoint,
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        },
    )
    assert said.returncode == 0, said.stderr
    found = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    for store, one in zip((blocks, segments), found, strict=True):
        top, depths = answers(store)
        assert sorted(rounded((name, ns / 1e9) for name, ns in one["functions"].items() if ns)) == sorted(top)
        assert [tuple(pair) for pair in one["depths"]] == depths
    assert len(found[1]["readers"]) == 2
