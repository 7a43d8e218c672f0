"""The main-thread cost of a flame graph with 100k and 500k nodes, as a table.

    cd bench/web && npm ci && npm run build && python costs.py

Values are milliseconds in headless Chromium, the medians of five fresh pages: parsing the response's text,
its columns, the sums of the columns, the same for the inverted graph, the first paint, and the zoom of a
click. For a wheel that zooms and pans they are the work of a frame, and the time from one frame to the
next.
"""

from __future__ import annotations

import functools
import http.server
import statistics
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

RUNS = 5
SIZES = (100_000, 500_000)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    handler = functools.partial(Quiet, directory=str(Path(__file__).parent / "dist"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    medians: list[dict[str, float]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium-headless-shell", args=["--no-sandbox", "--disable-gpu"]
        )
        for nodes in SIZES:
            runs = []
            for _ in range(RUNS):
                context = browser.new_context(
                    viewport={"width": 1280, "height": 800}, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{server.server_port}/costs.html")
                runs.append(page.evaluate("nodes => costs(nodes)", nodes))
                context.close()
            medians.append({what: statistics.median(run[what] for run in runs) for what in runs[0]})
        browser.close()
    server.shutdown()
    print("| ms |", " | ".join(f"{nodes:,} nodes" for nodes in SIZES), "|")
    print("|---|" + "---|" * len(SIZES))
    for what in medians[0]:
        print(f"| {what} |", " | ".join(f"{median[what]:.1f}" for median in medians), "|")


if __name__ == "__main__":
    main()
