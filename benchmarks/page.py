"""The page in a headless Chromium: ./dev bench page.

First paint from a server on the loopback, with made-up ranks; frames a second while the list of
ranks scrolls; bytes. No GPU draws here: frames are made by the processor.
"""

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from browser import Browser, Page, found_browser  # noqa: E402

SERVE = ROOT / "build" / "release" / "tests" / "metrics" / "metrics_serve"
LIVE = "document.getElementById('link').dataset.state === 'live'"

# Scrolls by half a tile a frame for three seconds, as a wheel does; times between frames in ms.
SCROLL = """new Promise((done) => {
  const list = document.getElementById("list"), gaps = [];
  let before = performance.now(), down = 1;
  const until = before + 3000;
  requestAnimationFrame(function frame(now) {
    gaps.push(now - before);
    before = now;
    if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) down = -1;
    if (list.scrollTop <= 0) down = 1;
    list.scrollTop += 39 * down;
    if (now < until) requestAnimationFrame(frame); else done(gaps.slice(2));
  });
})"""


def first_paint(browser: Browser, address: str, loads: int) -> tuple[list[float], list[float]]:
    painted, drawn = [], []
    for _ in range(loads):
        page = browser.page()
        page.open(address)
        page.wait(LIVE)
        entry = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        page.wait(entry)
        painted.append(page.evaluate(entry))
        drawn.append(page.evaluate("performance.getEntriesByName('ranks-drawn')[0].startTime"))
        page.close()
    return painted, drawn


def scrolled(page: Page) -> str:
    gaps = page.evaluate(SCROLL)
    late = sum(gap > 25 for gap in gaps)  # a frame at 60 Hz takes 16.7 ms: one was left out
    rate = 1000 * len(gaps) / sum(gaps)
    return f"{rate:.1f} frames/s, longest {max(gaps):.0f} ms, {late} of {len(gaps)} frames late"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--many", type=int, default=1024, help="ranks of the second list")
    parser.add_argument("--loads", type=int, default=11)
    arguments = parser.parse_args()
    program = found_browser()
    if not program:
        sys.exit("no Chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "profile").mkdir()
        options = ("--ranks", str(arguments.ranks), "--port", "0", "--socket-dir", name)
        serve = subprocess.Popen([SERVE, *options], stdout=subprocess.PIPE, text=True)
        try:
            port = json.loads(serve.stdout.readline())["port"]
            with Browser(program, folder / "profile") as browser:
                measure(browser, f"http://127.0.0.1:{port}/", arguments)
        finally:
            serve.terminate()
            serve.wait()


def measure(browser: Browser, address: str, arguments: argparse.Namespace) -> None:
    source = (ROOT / "metrics" / "page" / "index.html").read_bytes()
    print(f"bytes: {len(source):,}, {len(gzip.compress(source)):,} compressed", flush=True)
    painted, drawn = first_paint(browser, address, arguments.loads)
    for what, times in (("first paint", painted), ("ranks drawn", drawn)):
        print(
            f"{what}, {arguments.ranks} ranks: median {statistics.median(times):.0f} ms, "
            f"longest {max(times):.0f} ms of {len(times)}",
            flush=True,
        )
    page = browser.page()
    page.open(address)
    page.wait(LIVE)
    print(f"scroll, {arguments.ranks} ranks: {scrolled(page)}", flush=True)
    # As many ranks as wanted, made of those of the server.
    node = json.loads(page.evaluate("fetch('/v1/node').then((answer) => answer.text())"))
    ranks = node["ranks"]
    node["ranks"] = [
        ranks[number % len(ranks)] | {"rank": number} for number in range(arguments.many)
    ]
    page.answer("/v1/node", node)
    page.wait(f"state.shown.length === {arguments.many}")
    size = len(json.dumps(node)) / 2**20
    print(f"scroll, {arguments.many} ranks ({size:.1f} MiB a second): {scrolled(page)}")
    page.close()


if __name__ == "__main__":
    main()
