"""Fuzz one target under atheris: libFuzzer keeps inputs that reach new code of Sidelight.

    python -m tests.fuzz.coverage_guided TARGET SEED INPUTS SECONDS FOLDER

Half of the changes are those of `mutations`, half libFuzzer's. A failing input is written to FOLDER. Atheris
needs a wheel for this Python, so it is no dependency of the tests: `make fuzz` installs it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from random import Random
from typing import Any

MEMORY_MIB = 2048
TIMEOUT_SECONDS = 60
INSTRUMENTED = ("sidelight_model", "sidelight_collector", "sidelight_cli.compare")


def main(name: str, seed: int, inputs: int, seconds: int, folder: Path) -> None:
    """Never returns: libFuzzer ends the process, with a status other than 0 after a failure."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.all_targets import find_target
    from tests.fuzz.mutations import mutate
    from tests.fuzz.targets import outcome_of

    target = find_target(name)
    folder.mkdir(parents=True, exist_ok=True)
    seeds = folder / f"seeds-{name}"
    seeds.mkdir(exist_ok=True)
    for number, content in enumerate(target.seeds):
        (seeds / str(number)).write_bytes(content)

    def run(data: bytes) -> None:
        outcome_of(target.run, data)

    def change(data: bytes, max_bytes: int, change_seed: int) -> bytes:
        random = Random(change_seed)
        if random.random() < 0.5:
            return bytes(atheris.Mutate(data, max_bytes))
        return mutate(data, random, target.tokens, target.seeds, max_bytes)

    options = (
        *(f"-runs={inputs}", f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={TIMEOUT_SECONDS}"),
        *(
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-artifact_prefix={folder}/{name}-",
            f"-max_len={target.max_bytes}",
        ),
        *("-print_final_stats=1", "-verbosity=0"),
    )
    atheris.Setup([sys.argv[0], *options, str(seeds)], run, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
