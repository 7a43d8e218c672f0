"""Takes the pictures of the documentation from a live demo: what `make screenshots` runs.

    python -m tests.pictures [--into docs/pictures] [--seconds 120] [--only compare ...]

Every picture is of real profiles, in light and in dark. They are taken anew after a change to the pages.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.pictures.shots import SHOTS, take


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description="Take the docs' pictures.")
    parser.add_argument(
        "--into", type=Path, default=Path("docs/pictures"), help="where they go (%(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of profiles at first (%(default)s)")
    parser.add_argument("--only", nargs="*", choices=[shot.name for shot in SHOTS], help="these pictures")
    wish = parser.parse_args()
    shots = [shot for shot in SHOTS if wish.only is None or shot.name in wish.only]
    wish.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sidelight-pictures-") as folder:
        for path in take(shots, wish.into, wish.seconds, Path(folder)):
            print(f"{path} ({path.stat().st_size:,} bytes)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
