"""The time from "Compare with previous version" to the painted comparison, in ms.

    make install ui && python -m bench.web.compare [--stacks 20000] [--runs 11] [--limit-ms 250]

A new collector on an empty directory gets two versions of a service of the corpus (bench/corpus) with
`--stacks` distinct stacks each, and headless Chromium clicks the button. The time runs from the press of
the button, by the page's own clock, to the second frame after the differential graph, the verdict and the
culprits of these sides are present. The collector takes one more window of version 2 before each run, so that
no response is cached from the run before; only `again` repeats the same comparison. In `pressed` the button
is pressed for 80 ms, as people click, and in `rested` the pointer rests on it for 300 ms before. Values are
medians; CPU times are less dependent on other programs than the rest. `collector` is the CPU time of the
collector (user and system, all threads) from the pointer's first event to the painted page, `page` that of
the page's main thread. The exit code is 1 if the median of `pressed`, or the collector's CPU time of `new`,
is above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, CDPSession, sync_playwright
from ulid import ULID

from bench.corpus.stacks import Known, service, version
from sidelight_model.counts import Counts
from sidelight_model.folded import Stack
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window, encode_windows

SECOND_NS = 10**9
PERIOD_NS = 10_000_000
WINDOW_SECONDS = 60
SAMPLES = 6000
PRESS_MS = 80
REST_MS = 300
WELL = Quality(
    attempts=SAMPLES, samples=SAMPLES, mode="gil", sampler="sidelight", reader="own", python="3.11"
)

MEASURE = """([rested, pressed]) => new Promise(done => {
  const link = [...document.querySelectorAll('a.primary')].find(at => at.textContent.startsWith('Compare'));
  document.addEventListener('click', event => {
    const start = event.timeStamp;
    const look = () => {
      const here = location.pathname.endsWith('/compare');
      const drawn = here && document.querySelector('.flame canvas[data-drawn]');
      const said = document.querySelector('.verdict')?.textContent ?? 'Loading';
      const listed = document.querySelector('.culprits');
      if (!drawn || !listed || said.startsWith('Loading')) return setTimeout(look, 1);
      requestAnimationFrame(() => requestAnimationFrame(() => {
        const entries = performance.getEntriesByType('resource').filter(one => one.startTime >= start - 1);
        const asked = entries.find(one => one.name.includes('/compare?'));
        const times = asked ? [asked.startTime, asked.responseStart, asked.responseEnd] : [];
        done([performance.now() - start, ...times.map(at => at - start)]);
      }));
    };
    look();
  }, { capture: true, once: true });
  if (pressed === 0) return link.click();
  const pointer = { bubbles: true, button: 0, pointerType: 'mouse' };
  if (rested > 0) link.dispatchEvent(new PointerEvent('pointerover', pointer));
  setTimeout(() => {
    link.dispatchEvent(new PointerEvent('pointerdown', pointer));
    setTimeout(() => link.click(), pressed);
  }, rested);
})"""


class Bench(NamedTuple):
    """The browser, and the collector's address and process."""

    browser: Browser
    url: str
    collector: int
    start: float
    until: float
    more: Iterator[Window]


def windows(
    luck: random.Random, number: int, known: list[tuple[Stack, Known]], start: float, minutes: int, pods: int
) -> Iterator[Window]:
    """Yield one minute of each pod at a time.

    Samples follow the weights of the stacks, and each stack occurs at least once.
    """
    weights = [one.weight for _, one in known]
    for minute in range(minutes):
        for pod in range(pods):
            chosen = luck.choices(range(len(known)), weights, k=SAMPLES)
            rows = Counter([*chosen, *range(minute * pods + pod, len(known), minutes * pods)])
            start_ns = round((start + minute * WINDOW_SECONDS) * SECOND_NS)
            yield Window(
                id=str(ULID.from_timestamp(start_ns // 10**6)),
                labels=Labels({"service": "shop", "version": f"v{number}", "pod": f"shop-{number}-{pod}"}),
                start_ns=start_ns,
                duration_ns=WINDOW_SECONDS * SECOND_NS,
                period_ns=PERIOD_NS,
                counts={known[at][0]: Counts(running=count) for at, count in rows.items()},
                quality=WELL,
            )


def send(url: str, some: list[Window]) -> None:
    body = encode_windows(some)
    with urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/windows", body), timeout=60) as answer:
        assert answer.status == 200


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_cpu_ms(pid: int) -> float:
    """Read the CPU time of all threads of a process, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def read_task_ms(session: CDPSession) -> float:
    """Read the CPU time of the page's main thread."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration")) * 1000


def clicked(bench: Bench, new: bool, rested_ms: int = 0, pressed_ms: int = 0) -> list[float]:
    """Click once; return CPU ms of collector and page, ms until painted, asked, first and last byte.

    `new` sends one more window before, so that the collector has to compare anew.
    """
    if new:
        send(bench.url, [next(bench.more)])
    page = bench.browser.new_page(viewport={"width": 1280, "height": 900})
    try:
        page.goto(f"{bench.url}/s/shop?from={moment(bench.start)}&until={moment(bench.until)}")
        page.locator(".flame canvas[data-drawn]").wait_for()
        page.get_by_role("link", name="Compare with previous version").wait_for()
        page.wait_for_load_state("networkidle")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        cpu, task = read_cpu_ms(bench.collector), read_task_ms(session)
        found: list[float] = page.evaluate(MEASURE, [rested_ms, pressed_ms])
        return [read_cpu_ms(bench.collector) - cpu, read_task_ms(session) - task, *found]
    finally:
        page.close()


def measured(
    url: str, collector: int, start: float, until: float, more: Iterator[Window], runs: int, limit_ms: float
) -> bool:
    """Print the medians; return whether those of a click and of the collector's CPU are within the limit."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=flags)
        bench = Bench(browser, url, collector, start, until, more)
        clicked(bench, new=True)
        new, again, pressed, rested = [], [], [], []
        for _ in range(runs):
            new.append(clicked(bench, new=True))
            again.append(clicked(bench, new=False))
            pressed.append(clicked(bench, True, 0, PRESS_MS))
            rested.append(clicked(bench, True, REST_MS, PRESS_MS))
        browser.close()
    print("| answer | click to painted, median | least | most | CPU: collector | page |", end="")
    print(" asked at | first byte | last byte |\n|---|---|---|---|---|---|---|---|---|")
    for name, found in (("new", new), ("again", again), ("pressed", pressed), ("rested", rested)):
        total = [one[2] for one in found]
        cpu, task, *steps = (statistics.median(column) for column in zip(*found, strict=False))
        cells = [statistics.median(total), min(total), max(total), cpu, task, *steps[1:]]
        print(f"| {name} |", " | ".join(f"{ms:,.0f}" for ms in cells), "|")
    medians = {
        "click to painted": statistics.median(one[2] for one in pressed),
        "CPU of the collector": statistics.median(one[0] for one in new),
    }
    for name, ms in medians.items():
        verdict = "within" if ms <= limit_ms else "ABOVE"
        print(f"\n{name}: {ms:,.0f} ms of {limit_ms:g} ms, {verdict} the limit")
    return max(medians.values()) <= limit_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stacks", type=int, default=20_000)
    parser.add_argument("--minutes", type=int, default=20)
    parser.add_argument("--pods", type=int, default=3)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--limit-ms", type=float, default=250)
    parser.add_argument("--keep", help="a directory for the store that is to stay")
    given = parser.parse_args()
    luck = random.Random(20)
    known = service(given.stacks, 1)
    end = time.time() // 60 * 60 - 120
    middle = end - given.minutes * WINDOW_SECONDS
    start = middle - given.minutes * WINDOW_SECONDS
    with tempfile.TemporaryDirectory(prefix="sidelight-bench-") as folder:
        port_file = Path(folder) / "port"
        argv = [
            sys.executable,
            "-m",
            "sidelight.main",
            "collector",
            "--store",
            given.keep or f"{folder}/store",
        ]
        argv += ["--listen", "127.0.0.1:0", "--port-file", str(port_file)]
        with (Path(folder) / "log").open("wb") as log:
            collector = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            while not (port_file.exists() and port_file.read_text().strip()):
                if collector.poll() is not None:
                    sys.exit((Path(folder) / "log").read_text())
                time.sleep(0.1)
            url = f"http://127.0.0.1:{port_file.read_text().strip()}"
            for number, begin in ((1, start), (2, middle)):
                made = windows(luck, number, version(known, number, 1), begin, given.minutes, given.pods)
                while some := list(islice(made, 10)):
                    send(url, some)
            sides = (
                f'query={{service="shop"}}&baseline=version="v1"&comparison=version="v2"&from={start - 1:.0f}'
            )
            with urllib.request.urlopen(
                f"{url}/api/v1/compare?{sides}&nodes=all".replace('"', "%22")
            ) as answer:
                found = json.load(answer)
            print(
                f"{len(known):,} stacks, {len(found['level']):,} nodes, {found['basis']['windows']} windows\n"
            )
            more = windows(luck, 2, version(known, 2, 1), middle, given.runs + 1, given.pods)
            return 0 if measured(url, collector.pid, start, end, more, given.runs, given.limit_ms) else 1
        finally:
            collector.terminate()
            collector.wait()


if __name__ == "__main__":
    sys.exit(main())
