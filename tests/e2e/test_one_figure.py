"""The smallest budget, the step time and the predicted slowdown of a run: wherever they are shown
they are the same."""

import json
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser import Page
from page_serving import Server, opened, shown
from processes import ROOT, TIMEOUT_SECONDS, code, environment, free_port, run, tiny
from rank_client import ask
from scraped_run import eventually, get
from test_command_line import Runs
from warm_interpreter import Popen

MIB = 1024**2
STEPS = 24
ENDS_THE_LAST_STEP = "import torch; torch.nn.Linear(1, 1)(torch.zeros(1, 1))"  # another begins
# While it waits for a line no step is under way: nothing moves. Its peak is 29 MiB in stock torch.
TRAINING = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests" / "e2e")!r})
import tiny_train

def wait():
    print("waits", flush=True)
    input()

class Batches(tiny_train.Batches):
    def __getitem__(self, index):
        if index == {STEPS // 2}:
            wait()
        return super().__getitem__(index)

tiny_train.Batches = Batches
tiny_train.train("plain", {STEPS})
{ENDS_THE_LAST_STEP}
wait()
"""


@dataclass
class Trained:
    runs: Runs
    process: subprocess.Popen
    folder: Path
    port: int

    def wait_until_it_waits(self) -> None:
        said = ""
        for line in self.process.stdout:
            said += line
            if line == "waits\n":
                return
        raise AssertionError(said)

    def go_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    @property
    def socket(self) -> Path:
        return Path(self.runs.folder, "figures", "rank-0.sock")

    def got(self, path: str) -> str:
        return get(f"127.0.0.1:{self.port}", path)[1]

    def told(self, *verb: str) -> dict[str, Any]:
        done = self.runs.ebbtide(*verb, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["ranks"][0]

    def said(self, *verb: str) -> str:
        return self.runs.ebbtide(*verb).stdout


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Trained]:
    runs = Runs(tempfile.mkdtemp(prefix="ebt-", dir="/tmp"))
    port = free_port()
    variables = {
        "EBBTIDE_BUDGET": "22MiB",
        "EBBTIDE_JOB_ID": "figures",
        "EBBTIDE_PORT": str(port),
        "EBBTIDE_SOCKET_DIR": runs.folder,
        "EBBTIDE_TEXTFILE": str(tmp_path / "series.prom"),
    }
    program = code(TRAINING)
    with Popen(
        program.command,
        env=environment(program, variables, tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Trained(runs, process, tmp_path, port)
        finally:
            process.kill()
            shutil.rmtree(runs.folder, ignore_errors=True)


def series(text: str, name: str) -> float:
    (value,) = re.findall(rf"^ebbtide_{name}\{{.*\}} (\S+)$", text, re.MULTILINE)
    return float(value)


@dataclass(frozen=True)
class Figures:
    smallest_bytes: int
    step_seconds: float
    slowdown: float

    @staticmethod
    def of(told: dict[str, Any]) -> "Figures":
        """Of a status or a report."""
        smallest, plan = told["smallest_feasible_budget_bytes"], told["plan"]
        return Figures(smallest, told["step_seconds"]["median"], plan["overhead_ratio"])

    @property
    def size(self) -> str:
        return f"{self.smallest_bytes / MIB:.1f} MiB"

    @property
    def time(self) -> str:
        seconds = self.step_seconds
        return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def check_series(text: str, figures: Figures) -> None:
    assert series(text, "memory_smallest_feasible_budget_bytes") == figures.smallest_bytes
    assert series(text, "plan_overhead_ratio") == pytest.approx(figures.slowdown, rel=1e-9)


def draws(lines: list[str], figures: Figures) -> bool:
    """Is it a whole frame of `ebbtide top`, with the rank's answer? Frames may be read in parts."""
    return (
        any("1 rank, 1 training" in line for line in lines)
        and f"slowest {figures.time} (rank 0)" in lines[1]
        and f" {figures.time} " in lines[3]
        and any(f"; smallest budget {figures.size} " in line for line in lines)
    )


def test_clients_report_and_series_show_the_same(trained: Trained) -> None:
    trained.wait_until_it_waits()
    promised = trained.told("budget", "0", "18MiB")
    trained.go_on()
    trained.wait_until_it_waits()

    status = trained.told("status")
    figures = Figures.of(status)
    assert MIB < figures.smallest_bytes < 18 * MIB
    assert figures.slowdown == promised["overhead_ratio"] > 0
    assert figures.time in trained.said("status")

    assert Figures.of(ask(trained.socket, "GET", "/v1/status")[1]) == figures
    assert Figures.of(json.loads(trained.got("/v1/status"))) == figures
    check_series(trained.got("/metrics"), figures)

    refused = trained.runs.ebbtide("budget", "0", "1MiB")
    named = f"ebbtide budget 0 {-(-figures.smallest_bytes // MIB)}MiB"
    assert refused.returncode == 3 and named in refused.stderr, refused.stderr
    answer = ask(trained.socket, "POST", "/v1/budget", {"budget": "1MiB"})[1]
    assert f"its smallest is {figures.size}" in answer["error"]
    assert answer["smallest_feasible_budget_bytes"] == figures.smallest_bytes

    with trained.runs.terminal("top", columns=160) as top:
        try:
            eventually(lambda: draws(top.settled().splitlines(), figures), trained.process)
        except AssertionError as error:
            raise AssertionError(top.text()) from error

    assert trained.told("plan")["plan"]["overhead_ratio"] == figures.slowdown
    assert f", {100 * figures.slowdown:.1f}% more time" in trained.said("plan")
    assert trained.told("curve")["present"]["step_seconds"] == figures.step_seconds
    (now,) = re.findall("(.*)  now, as measured", trained.said("curve"))
    assert now.endswith(figures.time)
    eventually(lambda: trained.told("curve")["state"] == "ready", trained.process)
    offered = [point["budget_bytes"] for point in trained.told("curve")["points"]]
    assert offered and min(offered) >= figures.smallest_bytes, offered

    trained.process.communicate("\n", timeout=TIMEOUT_SECONDS)
    report = json.loads((trained.folder / "report-0.json").read_text())
    assert report["steps"] == status["steps"] == STEPS
    assert Figures.of(report) == figures
    written = (trained.folder / "series.prom").read_text()
    check_series(written, figures)
    seconds = series(written, "step_duration_seconds_sum")
    assert seconds == pytest.approx(report["step_seconds"]["total"], rel=1e-9)


def test_the_page_shows_the_same(trained: Trained, page: Page) -> None:
    trained.wait_until_it_waits()
    figures = Figures.of(trained.told("status"))
    opened(page, Server(trained.process, f"http://127.0.0.1:{trained.port}"))
    size, time = (
        page.evaluate(f"{shows}({value})")
        for shows, value in (("sized", figures.smallest_bytes), ("timed", figures.step_seconds))
    )
    lines = shown(page, "kpis").splitlines()
    assert f"at least {size}" in lines and size == figures.size, lines
    assert lines[lines.index("Step time") + 1] == time
    facts = shown(page, "plan-facts").splitlines()
    assert facts[facts.index("Slowdown") + 1] == f"+{100 * figures.slowdown:.1f} %"


# Each eighth batch is short, as a loader's last one: another program, that fits without a plan. It
# comes last.
TURNS = f"""
import json, sys
sys.path.insert(0, {str(ROOT / "tests" / "e2e")!r})
import ebbtide, planner, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [m for _ in range(8) for m in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))]
net = nn.Sequential(nn.Linear(64, 256), *layers, nn.Linear(256, 10))
optimizer = torch.optim.AdamW(net.parameters())
for i in range({STEPS}):
    rows = 32 if i % 8 == 7 else 512
    loss = nn.functional.cross_entropy(net(torch.randn(rows, 64)), torch.randint(0, 10, (rows,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if i < 10:
        planner.settle()
{ENDS_THE_LAST_STEP}
print("told", json.dumps(ebbtide.stats()), flush=True)
"""


def test_a_short_last_batch_changes_no_figure(tmp_path: Path) -> None:
    """A long step takes 19.5 MiB without a plan, a short one 9."""
    textfile = tmp_path / "series.prom"
    variables = {"EBBTIDE_BUDGET": "16MiB", "EBBTIDE_TEXTFILE": str(textfile)}
    done = run(code(TURNS), variables, tmp_path, out=False).succeeded()
    (told,) = re.findall(r"^told (.*)$", done.output, re.MULTILINE)
    status = json.loads(told)
    assert status["steps"] == done.report["steps"] == STEPS
    figures = Figures.of(status)
    assert figures.slowdown > 0
    history, since = status["history"], status["plan"]["active_from_step"]
    long_steps = [
        seconds
        for step, seconds in zip(history["steps"], history["step_seconds"], strict=True)
        if step % 8 and step >= since
    ]
    assert figures.step_seconds == statistics.median_high(long_steps)
    assert Figures.of(done.report) == figures
    assert done.report["plan"]["active_from_step"] == since >= done.report["first_planned_step"] > 1
    check_series(textfile.read_text(), figures)
    ((time, unit),) = re.findall(rf"ended after {STEPS} steps of ([\d.]+) (m?s):", done.output)
    seconds = float(time) / (1000 if unit == "ms" else 1)
    assert seconds == pytest.approx(figures.step_seconds, rel=0.06)  # its two digits


def test_a_refused_run_names_what_its_report_has(tmp_path: Path) -> None:
    done = run(tiny(steps=6), {"EBBTIDE_BUDGET": "2MiB"}, tmp_path)
    assert done.status == 1, done.output
    (named,) = re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\d+)MiB", done.output)
    assert int(named) * MIB == done.report["smallest_feasible_budget_bytes"]
