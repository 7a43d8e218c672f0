"""Record the services anew: `python -m tests.services.endpoints [--python 3.12.1] [--only NAME]`.

Writes `recorded/NAME-PYTHON.folded`: of each handler the heaviest stacks, and those without one. It needs
Debian's redis-server for RQ, and installs the frameworks into an environment of each Python.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from sidelight_model.counts import Counts
from sidelight_model.folded import Stack, join_frames, render_folded, split_stack
from sidelight_model.frames import strip_line_number
from tests.services.endpoints.recording import record
from tests.services.endpoints.shops import RECORDINGS, SHOPS, Shop
from tests.services.endpoints.truth import find_handler
from tests.services.venvs import environment

PYTHONS = Path.home() / ".pyenv" / "versions"
_STACKS_OF_A_HANDLER = 6
_OTHER_STACKS = 16


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.services.endpoints")
    parser.add_argument("--python", action="append", default=[], help="default: 3.12.1 and 3.10.13")
    parser.add_argument("--only", action="append", default=[], help="only services with this in their name")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each is recorded")
    options = parser.parse_args(argv)
    RECORDINGS.mkdir(exist_ok=True)
    for version in options.python or ("3.12.1", "3.10.13"):
        installed = environment(PYTHONS / version / "bin" / "python", "endpoints")
        for shop in SHOPS.values():
            if options.only and not any(text in shop.name for text in options.only):
                continue
            with tempfile.TemporaryDirectory(prefix="sidelight-endpoints-") as folder:
                counts = select(record(shop, installed, Path(folder), options.seconds), shop)
            minor = ".".join(version.split(".")[:2])
            (RECORDINGS / f"{shop.name}-{minor}.folded").write_text(render_folded(counts))
            sys.stdout.write(f"{shop.name} {minor}: {len(counts)} stacks\n")
            sys.stdout.flush()
    return 0


def select(counts: Mapping[Stack, Counts], shop: Shop) -> dict[Stack, Counts]:
    """Keep some of the stacks; of those that differ only in lines, the heaviest."""
    kept: dict[Stack, Counts] = {}
    seen: set[Stack] = set()
    room = Counter(dict.fromkeys([*shop.endpoints], _STACKS_OF_A_HANDLER), none=_OTHER_STACKS)
    for stack, count in sorted(counts.items(), key=lambda item: (-item[1].wall, item[0])):
        frames = split_stack(stack)
        lineless = join_frames(map(strip_line_number, frames))
        handler = find_handler(frames, shop) or "none"
        if lineless not in seen and room[handler]:
            seen.add(lineless)
            room[handler] -= 1
            kept[stack] = count
    return kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
