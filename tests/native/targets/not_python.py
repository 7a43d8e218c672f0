"""Becomes a process that is no Python, after saying that it is ready."""

import os

print("ready", flush=True)
os.execvp("sleep", ["sleep", "30"])
