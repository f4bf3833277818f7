"""The smallest budget, the step time and the predicted slowdown of a run: wherever they are shown
they are the same."""

import json
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser import Page
from page_serving import Server, opened, shown
from processes import ROOT, TIMEOUT_SECONDS, code, environment, free_port, run
from rank_client import ask
from scraped_run import eventually, get
from test_command_line import Runs
from warm_interpreter import Popen

MIB = 1024**2
STEPS = 24
ENDS_THE_LAST_STEP = "import torch; torch.nn.Linear(1, 1)(torch.zeros(1, 1))"  # another begins
WAITING = f"""
import json, sys
sys.path.insert(0, {str(ROOT / "tests" / "e2e")!r})
import ebbtide, tiny_train

def wait():
    print("waits", flush=True)
    input()
"""
# While it waits for a line no step is under way: nothing moves. Its peak is 29 MiB in stock torch.
TRAINING = f"""{WAITING}
class Batches(tiny_train.Batches):
    def __getitem__(self, index):
        if index == {STEPS // 2}:
            wait()
        return super().__getitem__(index)

tiny_train.Batches = Batches
tiny_train.train("plain", {STEPS})
{ENDS_THE_LAST_STEP}
print("told", json.dumps(ebbtide.stats()))
wait()
"""


@dataclass
class Trained:
    runs: Runs
    process: subprocess.Popen
    folder: Path
    port: int

    def wait_until_it_waits(self) -> str:
        """What it said before."""
        said = ""
        for line in self.process.stdout:
            if line == "waits\n":
                return said
            said += line
        raise AssertionError(said)

    def go_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """What it says at its end."""
        return self.process.communicate("\n", timeout=TIMEOUT_SECONDS)[0]

    @property
    def socket(self) -> Path:
        return Path(self.runs.folder, "figures", "rank-0.sock")

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "report-0.json").read_text())

    @property
    def written_series(self) -> str:
        return (self.folder / "series.prom").read_text()

    def got(self, path: str) -> str:
        return get(f"127.0.0.1:{self.port}", path)[1]

    def told(self, *verb: str) -> dict[str, Any]:
        done = self.runs.ebbtide(*verb, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["ranks"][0]

    def said(self, *verb: str) -> str:
        return self.runs.ebbtide(*verb).stdout


@contextmanager
def training(text: str, budget: str, folder: Path) -> Iterator[Trained]:
    runs = Runs(tempfile.mkdtemp(prefix="ebt-", dir="/tmp"))
    port = free_port()
    variables = {
        "EBBTIDE_BUDGET": budget,
        "EBBTIDE_JOB_ID": "figures",
        "EBBTIDE_PORT": str(port),
        "EBBTIDE_SOCKET_DIR": runs.folder,
        "EBBTIDE_TEXTFILE": str(folder / "series.prom"),
    }
    program = code(text)
    with Popen(
        program.command,
        env=environment(program, variables, folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Trained(runs, process, folder, port)
        finally:
            process.kill()
            shutil.rmtree(runs.folder, ignore_errors=True)


@pytest.fixture
def page_or_why(request: pytest.FixtureRequest) -> Page | str:
    """Why there is no page, where Chromium is missing: all else is asked nevertheless."""
    try:
        return request.getfixturevalue("page")
    except pytest.skip.Exception as skipped:
        return str(skipped)


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
        """Of a status or a report. Without a plan nothing slows steps down."""
        smallest, plan = told["smallest_feasible_budget_bytes"], told["plan"]
        slowdown = plan["overhead_ratio"] if plan else 0.0
        return Figures(smallest, told["step_seconds"]["median"], slowdown)

    @property
    def smallest_mib(self) -> int:
        """As a budget is named: no less than it, in whole MiB."""
        return -(-self.smallest_bytes // MIB)

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
        and any(re.search(f"; smallest budget {figures.size}[ ;]", line) for line in lines)
    )


def check_top(trained: Trained, figures: Figures) -> None:
    with trained.runs.terminal("top", columns=160) as top:
        try:
            eventually(lambda: draws(top.settled().splitlines(), figures), trained.process)
        except AssertionError as error:
            raise AssertionError(top.text()) from error


def told_by_the_program(said: str) -> dict[str, Any]:
    """Its ebbtide.stats()."""
    (told,) = re.findall(r"^told (.*)$", said, re.MULTILINE)
    return json.loads(told)


def check_statuses(trained: Trained, said: str, figures: Figures) -> None:
    assert figures.time in trained.said("status")
    assert Figures.of(ask(trained.socket, "GET", "/v1/status")[1]) == figures
    assert Figures.of(json.loads(trained.got("/v1/status"))) == figures
    assert Figures.of(told_by_the_program(said)) == figures


def check_refused_budgets(trained: Trained, figures: Figures) -> None:
    refused = trained.runs.ebbtide("budget", "0", "1MiB")
    named = f"ebbtide budget 0 {figures.smallest_mib}MiB"
    assert refused.returncode == 3 and named in refused.stderr, refused.stderr
    answer = ask(trained.socket, "POST", "/v1/budget", {"budget": "1MiB"})[1]
    assert f"its smallest is {figures.size}" in answer["error"]
    assert answer["smallest_feasible_budget_bytes"] == figures.smallest_bytes


def check_plan_and_curve(trained: Trained, figures: Figures) -> None:
    assert trained.told("plan")["plan"]["overhead_ratio"] == figures.slowdown
    assert f", {100 * figures.slowdown:.1f}% more time" in trained.said("plan")
    assert trained.told("curve")["present"]["step_seconds"] == figures.step_seconds
    (now,) = re.findall("(.*)  now, as measured", trained.said("curve"))
    assert now.endswith(figures.time)
    eventually(lambda: trained.told("curve")["state"] == "ready", trained.process)
    offered = [point["budget_bytes"] for point in trained.told("curve")["points"]]
    assert offered and min(offered) >= figures.smallest_bytes, offered


def check_page(trained: Trained, page: Page, figures: Figures) -> None:
    opened(page, Server(trained.process, f"http://127.0.0.1:{trained.port}"))
    size, time = (
        page.evaluate(f"{shows}({value})")
        for shows, value in (("sized", figures.smallest_bytes), ("timed", figures.step_seconds))
    )
    lines = shown(page, "kpis").splitlines()
    assert f"at least {size}" in lines and size == figures.size, lines
    assert lines[lines.index("Step time") + 1] == time
    if figures.slowdown == 0:
        return  # no plan: the page tells none of its facts
    facts = shown(page, "plan-facts").splitlines()
    assert facts[facts.index("Slowdown") + 1] == f"+{100 * figures.slowdown:.1f} %"


def check_last_line(output: str, figures: Figures) -> None:
    ((time, unit),) = re.findall(rf"ended after {STEPS} steps of ([\d.]+) (m?s):", output)
    seconds = float(time) / (1000 if unit == "ms" else 1)
    assert seconds == pytest.approx(figures.step_seconds, rel=0.06)  # its two digits


def test_all_who_show_figures_of_a_run_show_the_same(
    tmp_path: Path, page_or_why: Page | str
) -> None:
    """Only a refusal as a run starts is not among them: it ends another one, below."""
    with training(TRAINING, "22MiB", tmp_path) as trained:
        trained.wait_until_it_waits()
        promised = trained.told("budget", "0", "18MiB")
        trained.go_on()
        said = trained.wait_until_it_waits()

        status = trained.told("status")
        figures = Figures.of(status)
        assert MIB < figures.smallest_bytes < 18 * MIB
        assert figures.slowdown == promised["overhead_ratio"] > 0
        check_statuses(trained, said, figures)
        check_series(trained.got("/metrics"), figures)
        check_refused_budgets(trained, figures)
        check_top(trained, figures)
        check_plan_and_curve(trained, figures)
        if isinstance(page_or_why, Page):
            check_page(trained, page_or_why, figures)

        check_last_line(trained.end(), figures)
        assert trained.report["steps"] == status["steps"] == STEPS
        assert Figures.of(trained.report) == figures
        check_series(trained.written_series, figures)
        seconds = series(trained.written_series, "step_duration_seconds_sum")
        assert seconds == pytest.approx(trained.report["step_seconds"]["total"], rel=1e-9)
    if not isinstance(page_or_why, Page):
        pytest.skip(f"all but the page show the same: {page_or_why}")


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
    status = told_by_the_program(done.output)
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
    check_last_line(done.output, figures)


# Its third step at the latest is refused. While it waits there is still a run to ask.
REFUSED = f"""{WAITING}
try:
    tiny_train.train("plain", 6)
except RuntimeError:
    print("told", json.dumps(ebbtide.stats()))
    wait()
    raise
"""


def test_all_who_show_a_refused_run_name_what_its_error_names(
    tmp_path: Path, page_or_why: Page | str
) -> None:
    with training(REFUSED, "2MiB", tmp_path) as trained:
        said = trained.wait_until_it_waits()
        figures = Figures.of(trained.told("status"))
        assert figures.smallest_bytes > 2 * MIB and figures.slowdown == 0
        check_statuses(trained, said, figures)
        check_series(trained.got("/metrics"), figures)
        check_refused_budgets(trained, figures)
        check_top(trained, figures)
        if isinstance(page_or_why, Page):
            check_page(trained, page_or_why, figures)

        error = trained.end()
        assert trained.process.returncode == 1, error
        (named,) = re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\d+)MiB", error)
        assert int(named) * MIB == figures.smallest_bytes
        assert Figures.of(trained.report) == figures
        check_series(trained.written_series, figures)
    if not isinstance(page_or_why, Page):
        pytest.skip(f"all but the page name the same: {page_or_why}")
