"""Flame graphs of 1k to 500k nodes in headless Chromium, compared with others.

    cd bench/web && npm ci && npm run build && python run.py

The script measures first paint, zoom and memory, and compares them with four contenders. Times are in
milliseconds from the call until the graph is visible, including two animation frames. They are medians of
`--runs` fresh pages with software rasterization: trust the ratios, which come from the same run. A canvas
must read back with ink (Grafana's and ours). Parsing is excluded, except for speedscope, which reads its
own file. Grafana's component is drawn as the graph alone, and in full, as it is embedded: header, table and
graph. Its zoom is excluded, because it is an entry of a menu that needs Grafana. Wheel is the median time
between two frames while the wheel zooms; a 60 Hz display needs a frame every 16.7 ms. Memory is the
JavaScript heap after the first paint and a garbage collection, minus that of a page that has drawn nothing.
It includes the input of the contender.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Error, Page, Route, sync_playwright

HERE = Path(__file__).parent
UI = HERE.parent.parent / "web" / "dist" / "assets"
OURS = "sidelight"
SPEEDSCOPE = "speedscope"
WHOLE = "@grafana/flamegraph, whole"
CONTENDERS = (OURS, "@grafana/flamegraph", WHOLE, "d3-flame-graph", "flame-chart-js", SPEEDSCOPE)
SIZES = (1_000, 10_000, 100_000, 500_000)
LIMIT_MS = 180_000
MOST_SCRIPT_BYTES = 80_000
FRAME_MS = 1000 / 60
FLAGS = ("--no-sandbox", "--enable-unsafe-swiftshader", "--use-angle=swiftshader")


class Seen(NamedTuple):
    """The result of one run: milliseconds, and bytes of heap.

    None is a value that a contender does not have.
    """

    paint: float
    zoom: float | None
    wheel: float | None
    heap: float


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def heap(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.enable") or session.send("Performance.getMetrics")
    return float(next(one["value"] for one in metrics["metrics"] if one["name"] == "JSHeapUsedSize"))


def drawn(page: Page, url: str, name: str, nodes: int) -> Seen:
    """Measure a contender that the page of this benchmark draws."""
    page.goto(f"{url}/index.html")
    before = heap(page)
    page.evaluate("([name, nodes]) => prepare(name, nodes)", [name, nodes])
    # The garbage of building the tree must not be collected during a measurement.
    heap(page)
    found = page.evaluate("() => bench()")
    return Seen(found["paint"], found["zoom"], found["wheel"], heap(page) - before)


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
    return Seen((time.perf_counter() - start) * 1000, None, None, heap(page) - before)


def answer(route: Route, file: str) -> None:
    route.fulfill(body=file, content_type="application/json")


def once(browser: Browser, url: str, name: str, nodes: int) -> Seen | str:
    """Measure with a fresh page; return the result, or the reason why there is none."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    measure: Callable[[Page, str, str, int], Seen] = speedscope if name == SPEEDSCOPE else drawn
    try:
        return measure(page, url, name, nodes)
    except Error as error:
        return error.message.splitlines()[0]
    finally:
        context.close()


def median(runs: Sequence[Seen]) -> Seen:
    columns = [[value for value in column if value is not None] for column in zip(*runs, strict=True)]
    return Seen(*(statistics.median(column) if column else None for column in columns))  # type: ignore[arg-type]


def cell(seen: Seen | str, ours: Seen | str) -> str:
    if isinstance(seen, str):
        return seen[:60]
    times = [seen.paint, *(value for value in (seen.zoom, seen.wheel) if value is not None)]
    text = " / ".join(f"{ms:,.0f}" for ms in times) + f" ms, {seen.heap / 1e6:,.0f} MB"
    if seen is ours or isinstance(ours, str):
        return text
    return f"{text} (paint {seen.paint / ours.paint:.1f}x, heap {seen.heap / max(ours.heap, 1):.1f}x)"


def scripts() -> str:
    """Compare the size of the UI's own scripts, served with gzip, with their limit."""
    files = list(UI.glob("*.js.gz"))
    if not files:
        return "scripts of the app: not built (make ui)"
    size = sum(file.stat().st_size for file in files)
    return f"scripts of the app: {size:,} bytes gz, {size / MOST_SCRIPT_BYTES:.2f} of {MOST_SCRIPT_BYTES:,}"


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
    print(f"paint / zoom / wheel (60 Hz: {FRAME_MS:.1f} ms), heap; ratios are to {OURS}; {wish.runs} runs\n")
    print("| nodes |", " | ".join(wish.only), "|")
    print("|---|" + "---|" * len(wish.only))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium-headless-shell", args=list(FLAGS)
        )
        for nodes in wish.nodes:
            results: dict[str, Seen | str] = {}
            for name in wish.only:
                runs = [once(browser, url, name, nodes) for _ in range(wish.runs)]
                good = [run for run in runs if isinstance(run, Seen)]
                results[name] = median(good) if good else f"failed: {runs[0]}"
            cells = (cell(seen, results.get(OURS, "")) for seen in results.values())
            print(f"| {nodes:,} |", " | ".join(cells), "|", flush=True)
        browser.close()
    server.shutdown()
    print(f"\n{scripts()}")


if __name__ == "__main__":
    main()
