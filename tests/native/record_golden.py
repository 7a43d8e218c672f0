"""Record real programs, by the py-spy command and by our sampler, as golden files of the folded format.

    python tests/native/record_golden.py [what ...]      (needs py-spy and sidelight_native installed)

Writes tests/model/golden/pyspy-<what>.folded (`py-spy record -f raw`, byte for byte) and
native-<what>.folded (states as `[idle]` and `[gil]` frames). py-spy does not escape newlines: what it writes
about them is not folded text, and goes to a .txt. Files stay below 60 KB: the rarest stacks are
left out of what is longer.
"""

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sidelight_native import Batch, Engine

from sidelight_model.counts import STATE_FRAMES

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "model" / "golden"
MAX_BYTES = 60_000
SECONDS = 2


@dataclass(frozen=True)
class Recording:
    """A target, what it is started with after its seconds, and what py-spy is told besides."""

    target: str
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    suffix: str = "folded"


RECORDINGS = {
    "threads": Recording("workers", options=("--threads", "--idle")),
    "recursion": Recording("recursion", ("1000",)),
    "asyncio": Recording("tasks", options=("--idle",)),
    "gevent": Recording("greenlets", options=("--idle",)),
    "non-ascii": Recording("names"),
    "spaces": Recording("hostile"),
    "newlines": Recording("hostile", ("newlines",), suffix="txt"),
    "thread-newlines": Recording("workers", ("newlines",), ("--threads", "--idle"), "txt"),
}


def main(names: list[str]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in names or RECORDINGS:
        recording = RECORDINGS[name]
        write(f"pyspy-{name}.{recording.suffix}", record_with_py_spy(recording))
        write(f"native-{name}.folded", record_with_session(recording))


def write(name: str, text: bytes) -> None:
    (GOLDEN / name).write_bytes(text)
    print(f"{name}: {len(text)} bytes")


def start(recording: Recording) -> "subprocess.Popen[str]":
    program = HERE / "targets" / f"{recording.target}.py"
    command = [sys.executable, str(program), str(SECONDS + 60), *recording.arguments]
    target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert target.stdout is not None
    assert target.stdout.readline() == "ready\n"
    return target


def record_with_py_spy(recording: Recording) -> bytes:
    with start(recording) as target, tempfile.NamedTemporaryFile() as out:
        command = ["py-spy", "record", "--format", "raw", "--duration", str(SECONDS), "--rate", "100"]
        command += ["--pid", str(target.pid), "--output", out.name, *recording.options]
        subprocess.run(command, check=True, capture_output=True)
        target.kill()
        return fit(Path(out.name).read_bytes().splitlines(keepends=True))


def record_with_session(recording: Recording) -> bytes:
    with start(recording) as target:
        session = Engine().attach(target.pid, rate_hz=100)
        time.sleep(SECONDS)
        batch = session.stop()
        target.kill()
    return fit([line.encode() for line in folded(batch)])


def folded(batch: Batch) -> list[str]:
    states = [frame and f";{frame}" for frame in STATE_FRAMES]
    return [
        f"{stack}{state} {count}\n"
        for _, stack, *counts in batch.counts
        for state, count in zip(states, counts, strict=True)
        if count
    ]


def fit(lines: list[bytes]) -> bytes:
    """The lines as they are, without the rarest where they are too many."""

    def count(line: bytes) -> int:
        last = line.split()[-1:]
        return int(last[0]) if last and last[0].isdigit() else sys.maxsize

    while sum(map(len, lines)) > MAX_BYTES:
        lines.remove(min(lines, key=count))
    return b"".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
