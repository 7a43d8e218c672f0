"""Flame graphs of 1k to 500k nodes in headless Chromium, compared with others.

    cd bench/web && npm ci && npm run build && python run.py

Each cell is the CPU time of the page's main thread and the time from the call until the graph is visible,
which includes two animation frames, in milliseconds. They are medians of `--runs` fresh pages, with the
contenders in turn. CPU times depend less on other programs; trust the ratios, which come from the same run.
A canvas must read back with ink (Grafana's and ours). Parsing is excluded, except for speedscope, which
reads its own file. Grafana's component is drawn as the graph alone, and in full, as it is embedded: header,
table and graph.

- hover: one of 20 moves of the pointer over a row; a move waits for a frame.
- zoom: Grafana's includes its menu.
- search: Grafana waits 250 ms after the last key.
- invert: the whole graph upside down, after a search. Grafana has none: the callers and callees of the
  first function of its table.

Wheel is the median time between two frames while the wheel zooms; a 60 Hz display needs a frame every
16.7 ms. Memory is the JavaScript heap at the end and after a garbage collection, minus that of a page that
has drawn nothing. It includes the input of the contender.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, CDPSession, Error, Page, Route, sync_playwright

HERE = Path(__file__).parent
UI = HERE.parent.parent / "web" / "dist" / "assets"
OURS = "sidelight"
SPEEDSCOPE = "speedscope"
WHOLE = "@grafana/flamegraph, whole"
CONTENDERS = (OURS, "@grafana/flamegraph", WHOLE, "d3-flame-graph", "flame-chart-js", SPEEDSCOPE)
SIZES = (1_000, 10_000, 100_000, 500_000)
LIMIT_MS = 180_000
MOST_SCRIPT_BYTES = 100_000
FLAGS = ("--no-sandbox", "--enable-unsafe-swiftshader", "--use-angle=swiftshader")


ACTIONS = ("paint", "hover", "zoom", "search", "invert")
MOVES = 20
"""Moves of one hover, as in `src/main.ts`."""


class Cost(NamedTuple):
    """Milliseconds until visible, and of CPU of the main thread (None: unknown)."""

    wall: float
    cpu: float | None


class Seen(NamedTuple):
    """The result of one run: the cost of each action, milliseconds of a wheel's frame, bytes of heap.

    An action or the wheel is missing where a contender does not have it.
    """

    costs: dict[str, Cost]
    wheel: float | None
    heap: float


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def read_metric(session: CDPSession, name: str) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == name))


def heap(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    return read_metric(session, "JSHeapUsedSize")


def drawn(page: Page, url: str, name: str, nodes: int) -> Seen:
    """Measure a contender that the page of this benchmark draws."""
    page.goto(f"{url}/index.html")
    before = heap(page)
    page.evaluate("([name, nodes]) => prepare(name, nodes)", [name, nodes])
    # The garbage of building the tree must not be collected during a measurement.
    heap(page)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    costs = {}
    for action in ACTIONS:
        start = read_metric(session, "TaskDuration")
        wall = page.evaluate("action => act(action)", action)
        cpu = (read_metric(session, "TaskDuration") - start) * 1000
        if wall is not None:
            costs[action] = Cost(wall, cpu / (MOVES if action == "hover" else 1))
    return Seen(costs, page.evaluate("() => wheel()"), heap(page) - before)


def speedscope(page: Page, url: str, _: str, nodes: int) -> Seen:
    """Measure speedscope, from opening its page until its title shows the file."""
    page.goto(f"{url}/index.html")
    file = page.evaluate("nodes => speedscopeFile(nodes)", nodes)
    page.goto(f"{url}/speedscope/file-format-schema.json")
    before = heap(page)
    page.route("**/bench.json", lambda route: answer(route, file))
    start = time.perf_counter()
    page.goto(f"{url}/speedscope/index.html#profileURL={url}/bench.json&view=left-heavy")
    page.wait_for_function("document.title.includes('bench')")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    paint = Cost((time.perf_counter() - start) * 1000, None)
    return Seen({"paint": paint}, None, heap(page) - before)


def answer(route: Route, file: str) -> None:
    route.fulfill(body=file, content_type="application/json")


def once(browser: Browser, url: str, name: str, nodes: int) -> Seen | str:
    """Measure with a fresh page; return the result, or the reason why there is none."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    measure: Callable[[Page, str, str, int], Seen] = speedscope if name == SPEEDSCOPE else drawn
    try:
        return measure(page, url, name, nodes)
    except Error as error:
        return error.message.splitlines()[0]
    finally:
        context.close()


def median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def rows(runs: dict[str, list[Seen]]) -> Iterator[tuple[str, dict[str, tuple[float | None, ...]]]]:
    """Yield what was measured, with the medians of each contender; the first of them is compared."""
    for action in ACTIONS:
        yield (
            f"{action}: CPU / wall, ms",
            {
                name: (
                    median(seen.costs[action].cpu for seen in some if action in seen.costs),
                    median(seen.costs[action].wall for seen in some if action in seen.costs),
                )
                for name, some in runs.items()
            },
        )
    yield "wheel, ms", {name: (median(seen.wheel for seen in some),) for name, some in runs.items()}
    yield "heap, MB", {name: (median(seen.heap / 1e6 for seen in some),) for name, some in runs.items()}


def cell(values: tuple[float | None, ...], ours: tuple[float | None, ...] | None) -> str:
    text = " / ".join("-" if value is None else f"{value:,.{1 if value < 10 else 0}f}" for value in values)
    pairs = zip(values, ours or (), strict=False)
    ratio = next((value / own for value, own in pairs if value is not None and own), None)
    return "" if not any(values) else text if ours is None or ratio is None else f"{text} ({ratio:.1f}x)"


def scripts() -> str:
    """Compare the size of the first page's scripts, served with gzip, with their limit."""
    index = UI.parent / "index.html"
    if not index.exists():
        return "scripts of the app: not built (make ui)"
    names = set(re.findall(r"assets/([^\"]+\.js)", index.read_text()))
    size = sum((UI / f"{name}.gz").stat().st_size for name in names)
    part = size / MOST_SCRIPT_BYTES
    return f"scripts of the first page: {size:,} bytes gz, {part:.2f} of {MOST_SCRIPT_BYTES:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure flame graphs in headless Chromium.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--only", nargs="*", choices=CONTENDERS, default=list(CONTENDERS))
    wish = parser.parse_args()
    handler = functools.partial(Quiet, directory=str(HERE / "dist"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    print(f"ratios are to {OURS}: of CPU where it is known; {wish.runs} runs\n")
    print("| nodes | measure |", " | ".join(wish.only), "|")
    print("|---|---|" + "---|" * len(wish.only))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium-headless-shell", args=list(FLAGS)
        )
        for nodes in wish.nodes:
            runs: dict[str, list[Seen]] = {name: [] for name in wish.only}
            for _ in range(wish.runs):
                for name in wish.only:
                    seen = once(browser, url, name, nodes)
                    if isinstance(seen, Seen):
                        runs[name].append(seen)
                    else:
                        print(f"{name}, {nodes:,} nodes: {seen}", file=sys.stderr)
            for measure, medians in rows(runs):
                ours = medians.get(OURS)
                cells = [cell(values, None if name == OURS else ours) for name, values in medians.items()]
                print(f"| {nodes:,} | {measure} |", " | ".join(cells), "|", flush=True)
        browser.close()
    server.shutdown()
    print(f"\n{scripts()}")


if __name__ == "__main__":
    main()
