"""Computes outside Python: `compiled_app.py PORT MODULE`, with a module that was compiled and has `burn`."""

import importlib
import sys

import tiny
from work import BURN_SECONDS

burn = importlib.import_module(sys.argv[2]).burn


def call_compiled() -> None:
    """What a sampler of Python frames sees of it."""
    burn(BURN_SECONDS)


if __name__ == "__main__":
    tiny.serve(tiny.listening(int(sys.argv[1])), call_compiled)
