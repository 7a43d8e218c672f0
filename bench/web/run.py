"""First paint and zoom of flame graphs in headless Chromium, at 1k to 500k nodes, as a Markdown table.

    cd bench/web && npm ci && npm run build && python run.py

Times are milliseconds from the call to two animation frames later, the median of three fresh pages, on
software raster: read the ratios. Parsing is not in them.
"""

from __future__ import annotations

import functools
import http.server
import statistics
import threading
from pathlib import Path

from playwright.sync_api import Browser, Error, sync_playwright

HERE = Path(__file__).parent
CONTENDERS = ("sidelight", "d3-flame-graph", "flame-chart-js")
SIZES = (1_000, 10_000, 100_000, 500_000)
LIMIT_MS = 120_000


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def once(browser: Browser, url: str, name: str, nodes: int) -> tuple[float, float] | None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(LIMIT_MS)
    try:
        page.goto(url)
        found = page.evaluate("([name, nodes]) => bench(name, nodes)", [name, nodes])
        return found["paint"], found["zoom"]
    except Error:
        return None
    finally:
        page.close()


def main() -> None:
    handler = functools.partial(Quiet, directory=str(HERE / "dist"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/index.html"
    print("| nodes |", " | ".join(f"{name}: paint / zoom" for name in CONTENDERS), "|")
    print("|---|" + "---|" * len(CONTENDERS))
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        for nodes in SIZES:
            cells = []
            for name in CONTENDERS:
                runs = [run for run in (once(browser, url, name, nodes) for _ in range(3)) if run]
                median = [statistics.median(column) for column in zip(*runs, strict=True)]
                cells.append(" / ".join(f"{ms:,.0f}" for ms in median) if runs else "failed")
            print(f"| {nodes:,} |", " | ".join(cells), "|", flush=True)
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()
