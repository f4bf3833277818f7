"""Runs the examples in real processes: plain, measured, and under a budget."""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
WARM_UP_STEPS = 6  # these record, plan and verify: steady figures leave them out


@dataclass(frozen=True)
class Example:
    """A training program that knows nothing of Ebbtide."""

    name: str
    title: str
    command: tuple[str, ...]
    ranks: int = 1
    preload: bool = False  # no Python: LD_PRELOAD loads the plugin


def gpt(steps: int) -> Example:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    script = (str(ROOT / "examples" / "train_gpt.py"), "--steps", str(steps))
    return Example("gpt", "GPT, 12 layers", (*torchrun, "--nproc-per-node", "2", *script), ranks=2)


def cnn(steps: int) -> Example:
    script = str(ROOT / "examples" / "train_cnn.py")
    return Example("cnn", "ResNet with BatchNorm", (sys.executable, script, "--steps", str(steps)))


def cpp(steps: int) -> Example:
    program = str(RELEASE / "bin" / "train_cpp")
    return Example(
        "cpp", "LibTorch C++, convolutions", (program, "--steps", str(steps)), preload=True
    )


@dataclass
class Run:
    """What one run left behind; lists have one entry a rank."""

    status: int
    seconds: float
    results: list[dict] = field(default_factory=list)
    reports: list[dict] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    repeats: list["Run"] = field(default_factory=list)  # the same, at another time

    def median_step(self, rank: int) -> float:
        return statistics.median(self.steady_steps(rank))

    def steady_steps(self, rank: int) -> list[float]:
        steps = self.results[rank]["step_seconds"]
        steady = steps[WARM_UP_STEPS:] or steps
        return steady + [s for repeat in self.repeats for s in repeat.steady_steps(rank)]

    def same_numbers(self, other: "Run", rank: int) -> bool:
        mine, theirs = dict(self.results[rank]), dict(other.results[rank])
        mine.pop("step_seconds")
        theirs.pop("step_seconds")
        return mine == theirs


def free_ports(count: int) -> int:
    """The first of `count` neighbouring ports that nobody listens on."""
    for base in range(20000 + os.getpid() % 5000, 32000, count):  # below the system's own choices
        sockets: list[socket.socket] = []
        try:
            for port in range(base, base + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
        finally:
            for bound in sockets:
                bound.close()
    raise RuntimeError("no free port")


def run(
    example: Example,
    variables: dict[str, str],
    folder: Path,
    say: Callable[[str], None],
    scrape: bool = True,
) -> Run:
    """Runs `example` with `variables` (none: stock torch); collects what it wrote into `folder`.

    `scrape`: asks for the metrics of all ranks, twice a second.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
    environment["OMP_NUM_THREADS"] = "1"
    port = None
    if variables:
        port = free_ports(example.ranks)
        environment |= variables
        environment["EBBTIDE_PORT"] = str(port)
        environment["EBBTIDE_REPORT"] = str(folder / "report-{rank}.json")
        if example.preload:
            environment["LD_PRELOAD"] = str(RELEASE / "lib" / "libebbtide.so")
    out = folder / ("result-0.json" if example.preload else "result-{rank}.json")

    started = time.monotonic()
    process = subprocess.Popen(
        [*example.command, "--out", str(out)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    metrics = [""] * example.ranks
    stop = threading.Event()
    scraper = threading.Thread(target=_scrape, args=(port, metrics, stop), daemon=True)
    scrape = scrape and port is not None
    if scrape:
        scraper.start()
    messages = []
    try:
        with open(folder / "output.log", "w") as log:
            for line in process.stdout:
                log.write(line)
                if "ebbtide" in line.lower():
                    messages.append(line.rstrip())
                if line.startswith(("step", "epoch", "ebbtide", "[ebbtide")):
                    say(line.rstrip())
        status = process.wait()
    finally:
        stop.set()
        if process.poll() is None:
            process.terminate()
            process.wait()
    if scrape:
        scraper.join()
    result = Run(status, time.monotonic() - started, metrics=metrics, messages=messages)
    result.results = _read(folder, "result", example.ranks)
    result.reports = _read(folder, "report", example.ranks)
    return result


def _scrape(port: int, metrics: list[str], stop: threading.Event) -> None:
    """Keeps the newest series of every rank until told to stop: local rank 0 has those of all."""
    while not stop.wait(0.5):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1) as answer:
                lines = answer.read().decode().splitlines(keepends=True)
        except OSError:
            continue  # not listening yet, or no longer
        for rank in range(len(metrics)):
            own = re.compile(rf'[{{,]rank="{rank}"')
            found = [line for line in lines if line.startswith("#") or own.search(line)]
            metrics[rank] = "".join(found) or metrics[rank]


def _read(folder: Path, kind: str, ranks: int) -> list[dict]:
    paths = [folder / f"{kind}-{rank}.json" for rank in range(ranks)]
    if not all(path.exists() for path in paths):
        return []
    return [json.loads(path.read_text()) for path in paths]
