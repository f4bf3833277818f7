"""Starts training programs as users do: real processes, the environment as the only switch."""

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warm_interpreter import Popen, heed_interrupts

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("TESTED_PRESET", "release")  # of CMake; ./dev sets it
LIBRARIES = ROOT / "build" / PRESET / "lib"
PYTHON = sys.executable
# Those of one pytest-xdist process; processes that train at once share none.
PORTS_OF_A_WORKER = 1700
MOST_PORTS = 10  # that are neighbours
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4
_given = itertools.count(os.getpid())
STARTED_WITH = dict(os.environ)  # modules that tests import set variables
PLANNER = os.environ.get("TEST_PLANNER", "greedy")  # auto in ./dev test --all, as users have it
TIMEOUT_SECONDS = 480  # hung; no test is about time
Watch = Callable[[str], object]


@dataclass(frozen=True)
class Program:
    command: tuple[str, ...]
    ranks: int = 1
    preload: bool = False  # a C++ program: LD_PRELOAD loads the plugin and settled.cpp


@dataclass(frozen=True)
class Finished:
    status: int  # as subprocess tells it: negative when killed by a signal
    output: str  # stdout and stderr
    results: list[dict]  # what the program wrote with --out, by rank; without its timings
    reports: list[dict]  # EBBTIDE_REPORT, by rank

    @property
    def report(self) -> dict:
        assert len(self.reports) == 1, f"no report was written\n{self.output}"
        return self.reports[0]

    def succeeded(self, over_budget: bool = False) -> "Finished":
        """Ended well and, unless it is expected otherwise, was never over its budget."""
        assert self.status == 0, self.output
        # Of a run with EBBTIDE_LOG=debug: something moved a value as no state of it allows.
        assert "a value is kept, for this is out of order: " not in self.output, self.output
        violations = [report["budget_violations"] for report in self.reports]
        assert over_budget or not any(violations), f"{violations}\n{self.output}"
        return self

    def said(self, pattern: str) -> bool:
        return re.search(pattern, self.output, re.IGNORECASE) is not None


def torchrun(ranks: int, *options: str) -> tuple[str, ...]:
    module = (PYTHON, "-m", "torch.distributed.run")
    return (*module, "--standalone", "--nproc-per-node", str(ranks), *options)


def script(path: str, *arguments: str, ranks: int = 1) -> Program:
    launcher = torchrun(ranks) if ranks > 1 else (PYTHON,)
    return Program((*launcher, str(ROOT / path), *arguments), ranks)


def settled(path: str, *arguments: str, ranks: int = 1) -> Program:
    """The script as it is, but after each optimizer step it waits until a plan has been made."""
    return script("tests/e2e/settled.py", str(ROOT / path), *arguments, ranks=ranks)


def tiny(variant: str = "plain", steps: int = 12) -> Program:
    return script("tests/e2e/tiny_train.py", "--variants", variant, "--steps", str(steps))


def code(text: str) -> Program:
    return Program((PYTHON, "-c", text))


def free_port(count: int = 1) -> int:
    """The first of `count` neighbouring ports that nobody listens on, and no earlier call gave."""
    assert count <= MOST_PORTS
    for _ in range(PORTS_OF_A_WORKER):
        first = next(_given) * MOST_PORTS % (PORTS_OF_A_WORKER - MOST_PORTS)
        base = 25000 + _worker * PORTS_OF_A_WORKER + first
        sockets = [socket.socket() for _ in range(count)]
        try:
            for offset, one in enumerate(sockets):
                one.bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise RuntimeError("no free port")


def environment(program: Program, variables: dict[str, str], folder: Path) -> dict[str, str]:
    """No variables of ours: stock torch. Else, unless given, a free port, a report in `folder`, no
    values on the host: what would be computed again would be written there on most machines. And
    the planner that is quick, and gives the same plan at any load: `auto` searches for seconds."""
    result = {k: v for k, v in STARTED_WITH.items() if not k.startswith("EBBTIDE")}
    result["OMP_NUM_THREADS"] = "1"
    if program.ranks > 1:  # torchrun leaves a folder of logs, else in /tmp
        result["PET_LOG_DIR"] = str(folder / "torchelastic")
    if any(name.startswith("EBBTIDE") for name in variables):
        result["EBBTIDE_PORT"] = str(free_port(program.ranks))
        result["EBBTIDE_REPORT"] = str(folder / "report-{rank}.json")
        result["EBBTIDE_OFFLOAD"] = "never"
        result["EBBTIDE_PLANNER"] = PLANNER
        if program.preload:
            loaded = (LIBRARIES / f"libebbtide{name}.so" for name in ("", "_settled"))
            result["LD_PRELOAD"] = ":".join(map(str, loaded))
    return result | variables


def run(
    program: Program,
    variables: dict[str, str],
    folder: Path,
    out: bool = True,
    watch: Watch | None = None,
) -> Finished:
    """`watch` gets each line of the output as it comes."""
    done = _run_once(program, variables, folder, out, watch)
    # A Gloo thread that frees a collective's tensor while the interpreter ends aborts the process
    # (pytorch 179291): the training was over. Once more then, with torch alone as well as with us.
    aborted = "terminate called without an active exception" in done.output
    if program.ranks > 1 and aborted and len(done.results) == program.ranks:
        why = "run again: a rank was aborted after it had trained (pytorch 179291)"
        warnings.warn(why, stacklevel=2)
        return _run_once(program, variables, folder, out, watch)
    return done


def started(program: Program, variables: dict[str, str], folder: Path) -> subprocess.Popen:
    """It runs on: its caller reads what it prints, and ends it. SIGINT reaches it."""
    return Popen(
        program.command,
        env=environment(program, variables, folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )


def wait_for(process: subprocess.Popen, text: str) -> str:
    """Reads until a line has `text`; returns what was read. Kills a program that hangs."""
    read = ""
    hung = threading.Timer(TIMEOUT_SECONDS, process.kill)
    hung.start()
    try:
        for line in process.stdout:
            read += line
            if text in line:
                return read
    finally:
        hung.cancel()
    raise AssertionError(f"the program ended before it said {text!r}\n{read}")


def _run_once(
    program: Program, variables: dict[str, str], folder: Path, out: bool, watch: Watch | None
) -> Finished:
    folder.mkdir(parents=True, exist_ok=True)
    command = list(program.command)
    if out:
        name = "result-{rank}.json" if program.ranks > 1 or not program.preload else "result-0.json"
        command += ["--out", str(folder / name)]
    status, output = _start(command, environment(program, variables, folder), folder, watch)
    results = _read(folder, "result", program.ranks)
    for result in results:
        result.pop("step_seconds", None)
    return Finished(status, output, results, _read(folder, "report", program.ranks))


def end(process: subprocess.Popen) -> None:
    """torchrun ends its ranks, which are in sessions of their own, unless it is killed at once."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """Status, as subprocess tells it, and output."""
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        end(process)
        output, _ = process.communicate(timeout=60)
        raise AssertionError(f"no end within {TIMEOUT_SECONDS} s\n{output}") from None
    except BaseException:
        end(process)
        raise
    return process.returncode, output


def watched(process: subprocess.Popen, watch: Watch) -> tuple[int, str]:
    """As ended(); `watch` gets each line as it comes."""
    output = ""
    hung = threading.Timer(TIMEOUT_SECONDS, end, (process,))
    hung.start()
    try:
        for line in process.stdout:
            output += line
            watch(line)
        process.wait()
    except BaseException:
        end(process)
        raise
    finally:
        hung.cancel()
    return process.returncode, output


def _start(
    command: list[str], environment: dict[str, str], folder: Path, watch: Watch | None
) -> tuple[int, str]:
    """Status, as subprocess tells it, and what it wrote to stdout and stderr."""
    with Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        return ended(process) if watch is None else watched(process, watch)


def _read(folder: Path, kind: str, ranks: int) -> list[dict]:
    paths = [folder / f"{kind}-{rank}.json" for rank in range(ranks)]
    return [json.loads(path.read_text()) for path in paths if path.exists()]
