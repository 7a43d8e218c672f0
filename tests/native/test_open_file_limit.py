"""What the sampler finds while its process has few file descriptors, or none."""

import errno
import json
import subprocess
import sys

import pytest

# Argument: pid, limit of open files. Samples until 20,000 stacks were counted, then without any descriptor.
SAMPLER = """
import contextlib, json, os, resource, sys, time
from sidelight_native import Engine

pid, limit = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
session = Engine(max_stop_us=20_000).attach(pid, rate_hz=200)
total = {"lock": 0, "other": 0, "errors": {}}
while total["lock"] + total["other"] < 20_000:
    time.sleep(0.05)
    batch = session.take()
    for _, stack, *states in batch.counts:
        if "wait_here" in stack:
            total["lock"] += states[5]
            total["other"] += sum(states) - states[5]
    assert session.ended is None
errors, counted = {}, {"lock": 0, "other": 0}
while errors.get("descriptors", 0) < 20:
    # The sampler opens files for a moment as well: the least number that was ever free counts.
    with contextlib.suppress(OSError):
        free = os.open("/", os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limit))
    time.sleep(0.05)
    batch = session.take()
    for kind, times in batch.errors.items():
        errors[kind] = errors.get(kind, 0) + times
    for _, stack, *states in batch.counts:
        if "wait_here" in stack:
            counted["lock"] += states[5]
            counted["other"] += sum(states) - states[5]
    assert session.ended is None
try:
    Engine().attach(pid, rate_hz=100)
except OSError as error:
    refused = error.errno
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
session.take()
while not (batch := session.take()).samples:
    time.sleep(0.05)
print(json.dumps({**total, "free": free, "errors": errors, "without": counted, "refused": refused}))
"""


@pytest.fixture(scope="module")
def sampled():
    program = """
import sys, threading
threading.stack_size(64 * 1024)
done = threading.Event()
def wait_here(): done.wait()
for _ in range(200): threading.Thread(target=wait_here, daemon=True).start()
print("ready", flush=True)
while not done.wait(0.001): sum(range(1000))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as target:
        try:
            assert target.stdout.readline() == b"ready\n"
            command = [sys.executable, "-c", SAMPLER, str(target.pid), "256"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
        finally:
            target.kill()
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_threads_wait_for_their_lock_however_few_files_may_be_open(sampled):
    assert sampled["other"] <= sampled["lock"] * 0.01


def test_the_sampler_leaves_descriptors_to_the_rest_of_its_process(sampled):
    assert sampled["free"] <= 256 - 64


def test_without_a_descriptor_a_tick_fails_and_no_state_is_guessed(sampled):
    assert sampled["errors"].keys() <= {"descriptors", "slow", "unstoppable", "moved"}
    assert sampled["without"]["other"] <= sampled["without"]["lock"] * 0.01
    assert sampled["refused"] == errno.EMFILE
