"""Functions with names in letters of two, three and four UTF-8 bytes. Ends after argv[1] seconds."""

import sys
import time

END = time.monotonic() + float(sys.argv[1])


def größe() -> None:
    until = time.monotonic() + 0.01
    while time.monotonic() < until:
        pass


def 計算() -> None:  # noqa: N802
    größe()


def 𠮷_μέτρο() -> None:  # noqa: N802
    計算()


print("ready", flush=True)
while time.monotonic() < END:
    𠮷_μέτρο()
