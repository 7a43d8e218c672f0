"""The collector says which kernel it uses, and works without the native one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sidelight_native

from sidelight_collector import native_kernel
from sidelight_collector.http.api.responses import encode_json

ANSWERS = """
import json, sys
from sidelight_collector import native_kernel
from sidelight_collector.ingest.validation import IngestLimits, ReceivedRequest, parse_request
from sidelight_collector.http.api.responses import encode_json
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.segments import write_hashed_segment
from sidelight_model.counts import ProfileType
from sidelight_model.window import WindowLimits, encode_windows
from tests.collector.stored_windows import START_NS, asked, question, window

sent = [window("main;f (a.py:1) 3 | main;f (a.py:2);[idle] 2 | main;g%3B 1"), window("main;(other) 5", at=5)]
body = encode_windows(sent)
taken = parse_request(
    ReceivedRequest(body, "", {}, START_NS + 20 * 10**9),
    IngestLimits(WindowLimits(), 10**6, 0, 10**12),
)
store, sides, kind = MemoryStore(), [question()], ProfileType.WALL
write_hashed_segment(store, taken.windows)
print(json.dumps({
    "native": native_kernel.get_kernel_status().is_native,
    "reason": native_kernel.get_kernel_status().reason,
    "hint": native_kernel.get_kernel_status().hint,
    "stored": sorted(entry.key for entry in store.list("v1/")),
    "flame": asked(
            store,
            lambda reading: query_flame_graph(reading, sides, kind, lines=False, nodes=3, max_nodes=9),
        ),
    "top": asked(store, lambda reading: query_top(reading, sides, kind, by=CostOrder.SELF, limit=9)),
    "depth": asked(store, lambda reading: query_depth(reading, sides, kind)),
}))
"""


def answers(shadow: Path | None) -> dict[str, object]:
    """What a process answers whose extension is that in a directory, or the installed one."""
    path = os.pathsep.join([*([str(shadow)] if shadow else []), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", ANSWERS], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_native_kernel_is_used_where_it_is_installed() -> None:
    assert native_kernel.get_kernel_status() == native_kernel.NativeKernelStatus(
        True, sidelight_native.__version__, ""
    )
    assert native_kernel.get_kernel_status().hint == ""


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("raise ImportError('not for this machine')", "not for this machine"),
        ("__version__ = '0.0.9'", "sidelight_native 0.0.9 is of an earlier release"),
    ],
    ids=["missing", "too old"],
)
def test_without_the_native_kernel_every_answer_is_the_same(module: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "sidelight_native.py").write_text(module)
    installed, without = answers(None), answers(tmp_path)
    assert (installed.pop("native"), without.pop("native")) == (True, False)
    assert (installed.pop("reason"), without.pop("reason")) == ("", reason)
    assert (installed.pop("hint"), bool(without.pop("hint"))) == ("", True)
    assert without == installed


def test_answers_are_compact_json_of_any_text_and_of_whole_numbers_of_any_size() -> None:
    answer = {"text": 'größe\u2028 "\\ \x00', "numbers": [0, -1, 2**64, 10**30, 0.1, None, True]}
    assert json.loads(encode_json(answer)) == answer
    assert encode_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    assert encode_json({"a": [1, "é"], "b": 2**70}) == f'{{"a":[1,"é"],"b":{2**70}}}'.encode()
