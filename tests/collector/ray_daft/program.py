"""Sums of a store's samples with Daft, on a Ray cluster of two nodes on loopback: `SERVICE SAMPLES STACKS …`.

Each pair of patterns names objects of both tables. A line of JSON for each: the CPU nanoseconds of each
function, the samples at each depth, and the processes that read. It runs in an environment of its own
(requirements.in), and knows of Sidelight what docs/scaling.md says.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import daft  # type: ignore[import-not-found,unused-ignore]
import ray  # type: ignore[import-not-found,unused-ignore]
from daft import col
from daft.io import IOConfig, S3Config  # type: ignore[import-not-found,unused-ignore]
from ray.cluster_utils import Cluster  # type: ignore[import-not-found,unused-ignore]

NODES = 2
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "node_ip_address": "127.0.0.1"}
KEYS = ("service", "h")


@daft.func  # type: ignore[untyped-decorator,unused-ignore]
def get_reader(_: int) -> int:
    return os.getpid()


def answer(service: str, samples: str, stacks: str) -> dict[str, Any]:
    own = col("service") == service
    rows = daft.read_parquet(samples).where(own)
    readers = rows.select(get_reader(col("running")).alias("reader")).distinct().to_pydict()["reader"]
    cpu = (col("running") + col("gil")).alias("samples")
    rows = rows.select("wid", *KEYS, "period_ns", cpu).distinct()
    frames = daft.read_parquet(stacks).where(own).select(*KEYS, "depth", "frames").distinct(*KEYS)
    joined = rows.join(frames, on=list(KEYS))
    function = col("frames").get(-1).regexp_replace(r":[0-9]+\)$", ")").alias("function")
    times = joined.select(function, (col("samples") * col("period_ns")).alias("ns"))
    functions = times.groupby("function").agg(col("ns").sum()).to_pydict()
    depths = joined.groupby("depth").agg(col("samples").sum()).to_pydict()
    return {
        "functions": dict(zip(functions["function"], functions["ns"], strict=True)),
        "depths": sorted(zip(depths["depth"], depths["samples"], strict=True)),
        "readers": readers,
    }


def main() -> None:
    service, *patterns = sys.argv[1:]
    s3 = S3Config(endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1", use_ssl=False)
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.environ["RAY_TMPDIR"] = folder
        Path(folder, "ray").mkdir()
        head = {**NODE, "temp_dir": f"{folder}/ray", "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(NODES - 1):
                cluster.add_node(**NODE)
            ray.init(address=cluster.address, log_to_driver=False)
            daft.set_runner_ray()
            daft.set_planning_config(default_io_config=IOConfig(s3=s3))
            for pair in zip(patterns[::2], patterns[1::2], strict=True):
                print(json.dumps(answer(service, *pair)), flush=True)
        finally:
            ray.shutdown()
            cluster.shutdown()


main()
