"""Record the programs of the corpus again, or describe a corpus of a given size.

    python -m bench.corpus [--pods 4] [--days 7] …
    python -m bench.corpus --record [--seconds 60] [--rate 1000]

Recording runs each program under `sidelight record` (as root, or with SYS_PTRACE): shop.py with the Django
of tests/services/requirements, the others with this interpreter. The recordings are written to
bench/corpus/recorded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zstandard

from bench.corpus import Corpus, Shape, shape_arguments, shape_of
from bench.corpus.stacks import PROGRAMS, RECORDED
from sidelight_model.window import encode_windows
from tests.services.venvs import environment


def record(seconds: float, rate: float) -> None:
    """Record each program."""
    compress = zstandard.ZstdCompressor(level=19)
    for program, share in PROGRAMS.items():
        python = environment(Path(sys.executable), "django").python if program == "shop" else sys.executable
        source = Path(__file__).parent / "programs" / f"{program}.py"
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch, "recorded.folded")
            command = [sys.executable, "-m", "sidelight.main", "record", "--rate", str(rate)]
            command += ["--output", str(output), "--", str(python), str(source), str(seconds)]
            subprocess.run(command, check=True, timeout=seconds + 120)
            text = output.read_bytes()
        path = RECORDED / f"{program}.folded.zst"
        path.write_bytes(compress.compress(text))
        print(f"{path.name}: {len(text.splitlines())} lines, {path.stat().st_size} bytes, share {share}")


def describe(shape: Shape) -> None:
    """Describe the windows of a corpus, and print how long it took to generate them."""
    start = time.perf_counter()
    corpus = Corpus(shape)
    prepared = time.perf_counter()
    rows = windows = 0
    pods: set[str] = set()
    seen: set[int] = set()
    for batch in corpus.batches():
        windows += len(batch)
        for row in batch:
            rows += len(row.hashes)
            pods.add(row.window.labels["pod"])
            seen.update(row.hashes)
    made = time.perf_counter()
    texts = [len(encode_windows([corpus.window(row)])) for row in next(corpus.batches())]
    print(f"{windows} windows, {rows} rows: {rows / windows:.0f} stacks a window, {len(seen)} in all")
    print(
        f"{sum(texts) / len(texts) / 1000:.0f} KB of text a window (the first {len(texts)}); {len(pods)} pods"
    )
    print(f"stacks made in {prepared - start:.1f} s, windows in {made - prepared:.1f} s")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--record", action="store_true")
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--rate", type=float, default=1000)
    shape_arguments(arguments)
    given = arguments.parse_args()
    if given.record:
        record(given.seconds, given.rate)
    describe(shape_of(given))


if __name__ == "__main__":
    main()
