"""What being watched costs a training: ./dev bench seeing.

One training under a budget. In turns nobody looks, and everybody does: ten scrapes of /metrics a
second, `ebbtide top` in a terminal, the page open in a browser. The watchers are stopped in between
(SIGSTOP), and have a core of their own; the training has the other one, with the plugin's server.
The cost is the processor time of the whole process for a step, server included: where both share a
core it lengthens the step by as much. It is the median, over neighbouring turns, of the turns'
ratio, less one; the same between turns without watchers says how far that can be trusted. Beside
it: the time that the plugin's own threads took, and the ratio of the median steps by the clock,
which whatever else the machine does disturbs more.
"""

import argparse
import http.client
import os
import pty
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from browser import Browser, found_browser  # noqa: E402
from processes import free_port  # noqa: E402

TRAINING = Path(__file__).resolve().parent / "_watched_training.py"
PROGRAM = ROOT / "build" / "release" / "bin" / "ebbtide"
WARM_UP_SECONDS = 8.0  # recorded, planned, verified
SETTLE_SECONDS = 0.5  # after a turn begins
SCRAPES_A_SECOND = 10


def below(process: int) -> Iterator[int]:
    """It and all that it started."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from below(int(child))


def tell(process: int, number: signal.Signals) -> None:
    for one in list(below(process)):
        os.kill(one, number)


class Scraper:
    """Ten times a second, while it may, over one connection, as Prometheus does."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        self.scrapes = 0
        self.bytes = 0
        self._may = threading.Event()
        self._ends = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends:
            if not self._may.wait(0.1):
                continue
            begun = time.monotonic()
            self._connection.request("GET", "/metrics")
            self.bytes = len(self._connection.getresponse().read())
            self.scrapes += 1
            time.sleep(max(0.0, 1 / SCRAPES_A_SECOND - (time.monotonic() - begun)))

    def go_on(self, may: bool) -> None:
        self._may.set() if may else self._may.clear()

    def close(self) -> None:
        self._ends = True
        self._thread.join()


class Top:
    """`ebbtide top` in a terminal of its own, which is read."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(PROGRAM, [str(PROGRAM), "top"], variables | {"TERM": "xterm-256color"})
        self.bytes = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 1 << 16):
                self.bytes += len(data)
        except OSError:  # it ended
            pass

    def close(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def median_step(ends: list[float], since: float, until: float) -> float:
    within = [end for end in ends if since <= end <= until]
    return statistics.median(b - a for a, b in zip(within, within[1:], strict=False))


def processor_seconds(process: int, name: str = "") -> float:
    """Spent on processors since its beginning by the threads whose name begins so."""
    nanoseconds = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text().startswith(name):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


class Turn:
    """A stretch of time, and the processor time that the training spent in it."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.since, self._whole, self._own = self._read()

    def _read(self) -> tuple[float, float, float]:
        whole, own = (processor_seconds(self._process, name) for name in ("", "ebbtide-"))
        return time.monotonic(), whole, own

    def end(self) -> None:
        self.until, whole, own = self._read()
        self.whole, self.own = whole - self._whole, own - self._own

    def steps(self, ends: list[float]) -> int:
        return sum(self.since <= end <= self.until for end in ends)


def beside(values: list[float]) -> list[float]:
    """Every second value over the mean of its neighbours, less one."""
    return [values[i] / ((values[i - 1] + values[i + 1]) / 2) - 1 for i in range(1, len(values), 2)]


def told(name: str, values: list[float]) -> None:
    alone = [b / a - 1 for a, b in zip(values[0::2], values[2::2], strict=False)]
    ratios = beside(values)
    print(f"{name}: {100 * statistics.median(ratios):+.2f} % (turns: {percents(ratios)})")
    print(f"  unwatched, one turn against the next: {percents(alone)}")


def wait_until_served(address: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers at {address}")


def watched(turns: int, turn_seconds: float, folder: Path) -> None:
    program = found_browser()
    if program is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    cores = sorted(os.sched_getaffinity(0))
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    variables = dict(os.environ) | {
        "EBBTIDE_BUDGET": "40MiB",
        "EBBTIDE_PORT": str(port),
        "EBBTIDE_SOCKET_DIR": str(folder / "sockets"),
        "EBBTIDE_LOG": "warning",
    }
    seconds = WARM_UP_SECONDS + (2 * turns + 1) * turn_seconds + 20
    steps = folder / "steps"
    command = [sys.executable, str(TRAINING), "--seconds", str(seconds), "--out", str(steps)]
    training = subprocess.Popen(["taskset", "-c", str(cores[0]), *command], env=variables)
    os.sched_setaffinity(0, set(cores[1:]) or set(cores))
    wait_until_served(address)
    scraper = Scraper(port)
    top = Top(variables)
    (folder / "profile").mkdir()
    try:
        with Browser(program, folder / "profile") as browser:
            page = browser.page()
            page.open(address)
            watchers = [top.pid, browser.process.pid]
            time.sleep(WARM_UP_SECONDS)
            spans: list[Turn] = []
            for turn in range(2 * turns + 1):
                looks = turn % 2 == 1
                scraper.go_on(looks)
                for one in watchers:
                    tell(one, signal.SIGCONT if looks else signal.SIGSTOP)
                time.sleep(SETTLE_SECONDS)
                spans.append(Turn(training.pid))
                time.sleep(turn_seconds - SETTLE_SECONDS)
                spans[-1].end()
            for one in watchers:
                tell(one, signal.SIGCONT)
            asked = page.evaluate("performance.getEntriesByType('resource').length")
    finally:
        scraper.close()
        top.close()
        training.terminate()
        training.wait()
    ends = [float(line) for line in steps.read_text().split()]
    medians = [median_step(ends, span.since, span.until) for span in spans]
    print(f"step {1e3 * statistics.median(medians[0::2]):.2f} ms, {len(ends)} steps")
    print(f"{scraper.scrapes} scrapes of {scraper.bytes} bytes, {asked} requests of the page")
    print(f"{top.bytes} bytes drawn by `top`")
    told("processor time of a step", [span.whole / span.steps(ends) for span in spans])
    own = [100 * span.own / (span.until - span.since) for span in spans]
    print(
        f"plugin's threads: {statistics.median(own[1::2]):.2f} % of the core watched, "
        f"{statistics.median(own[0::2]):.2f} % unwatched"
    )
    told("step by the clock", medians)


def percents(ratios: list[float]) -> str:
    return ", ".join(f"{100 * ratio:+.2f}" for ratio in sorted(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=8, help="with watchers")
    parser.add_argument("--seconds", type=float, default=8, help="of each turn")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        watched(arguments.turns, arguments.seconds, Path(folder))


if __name__ == "__main__":
    main()
