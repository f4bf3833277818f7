"""`ebbtide fit`: what it says of a command's first steps, and that the budgets it names train."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import (
    LIBRARIES,
    PYTHON,
    TIMEOUT_SECONDS,
    Finished,
    Program,
    environment,
    run,
    script,
)
from warm_interpreter import python

EBBTIDE = LIBRARIES.parent / "bin" / "ebbtide"
MIB = 2**20
STEPS = 20
FIT_TRAIN = "tests/e2e/fit_train.py"
GPT = ("examples/train_gpt.py", "--layers", "2", "--width", "96", "--length", "128")


@dataclass(frozen=True)
class Fit:
    """A folder of a test's own, in which temporary files are looked for."""

    folder: Path

    def run(
        self, *arguments: str, budget: str = "", forked: bool = True
    ) -> subprocess.CompletedProcess:
        """Programs are forked from an interpreter that has torch, as those of other tests are."""
        if forked:
            arguments = tuple(python() if word == PYTHON else word for word in arguments)
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        variables = {"EBBTIDE_LOG": "info"} | ({"EBBTIDE_BUDGET": budget} if budget else {})
        done = subprocess.run(
            [EBBTIDE, "fit", *arguments],
            env=environment(Program(()), variables, self.folder) | {"TMPDIR": str(temporary)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=3 * TIMEOUT_SECONDS,
        )
        assert not list(temporary.glob("ebbtide-fit-*")), "a folder was left"
        return done

    def told(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        done = self.run("--json", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def train(self, program: Program, budget_mib: int) -> Finished:
        variables = {"EBBTIDE_BUDGET": f"{budget_mib}MiB"}
        return run(program, variables, self.folder / f"{budget_mib}", out=False)


# As an actor or a logging process of a program, which its last lines would end: exit functions of
# Python wait for it. Nothing of the rest runs.
HELPED = """
import multiprocessing
import torch
def helper(stop):
    while not stop.is_set():
        stop.wait(0.1)
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    process = context.Process(target=helper, args=(stop,))
    process.start()
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(20):
        net(torch.randn(1024, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    stop.set()
    process.join()
    print("the rest ran")
"""


@pytest.fixture
def fit(tmp_path: Path) -> Fit:
    return Fit(tmp_path)


def trains(*arguments: str, ranks: int = 1) -> Program:
    return script(FIT_TRAIN, "--steps", str(STEPS), *arguments, ranks=ranks)


# --- the smallest budget --------------------------------------------------------------------------


def check_smallest(fit: Fit, program: Program) -> dict[str, Any]:
    """What is named trains, and most of it is needed."""
    told = fit.told("--keep", "kept", "--", *program.command)
    assert told["steps"] == 3 and told["ranks"] == program.ranks
    smallest = told["smallest_budget_bytes"]
    kept = (fit.folder / "kept" / "measured" / "reports").glob("*.json")
    reports = [json.loads(report.read_text()) for report in kept]
    named = max(report["smallest_feasible_budget_bytes"] for report in reports)
    # A first step may need less than is counted: then a run has held what the later ones need.
    assert smallest <= named
    assert smallest % MIB == 0 and smallest < told["plain_peak_bytes"]
    done = fit.train(program, smallest // MIB).succeeded()
    assert [report["steps"] for report in done.reports] == program.ranks * [STEPS]
    budgets = [row["budget_bytes"] for row in told["table"]]
    assert budgets == sorted(budgets) and budgets[0] == smallest and len(budgets) > 2
    assert told["table"][-1]["overhead_ratio"] == 0  # nothing is given up
    costs = [row["overhead_ratio"] for row in told["table"] if row["overhead_ratio"] is not None]
    assert costs == sorted(costs, reverse=True)
    return told


@pytest.mark.parametrize(
    ("optimizer", "ranks"),
    [
        ("momentum", 2),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in [("sgd", 1), ("momentum", 1), ("adamw", 1), ("sgd", 2), ("adamw", 2)]
        ),
    ],
)
def test_the_smallest_budget_trains(fit: Fit, optimizer: str, ranks: int) -> None:
    """The optimizer's state comes with the first update: all budgets count it."""
    check_smallest(fit, trains("--optimizer", optimizer, ranks=ranks))


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_so_does_that_of_an_example(fit: Fit, ranks: int) -> None:
    check_smallest(fit, script(*GPT, "--steps", str(STEPS), ranks=ranks))


# --- verdicts -------------------------------------------------------------------------------------


def test_a_budget_is_judged(fit: Fit) -> None:
    """By the option, else by the variable; the run itself ends when its fourth step begins."""
    command = ["--", *trains().command]
    done = fit.run("--keep", "kept", "--budget", "1GiB", *command, budget="1MiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fits 1GiB: no more time\nsmallest budget: EBBTIDE_BUDGET=")
    assert done.stderr.startswith("ebbtide: measured run: 3 steps on 1 rank, ")
    printed = (fit.folder / "kept" / "measured" / "output.txt").read_text()
    assert "step 2\n" in printed and "step 3\n" not in printed
    assert not (fit.folder / "report-0.json").exists()  # the user's own
    done = fit.run(*command, budget="default=4MiB,rank9=1GiB")
    assert done.returncode == 3, done.stderr
    said = "does not fit default=4MiB,rank9=1GiB (4.0 MiB): the smallest budget is "
    assert done.stdout.startswith(said), done.stdout
    unused = "EBBTIDE_BUDGET: rank9=1GiB is for nothing that is there: the command has 1 rank\n"
    assert f"ebbtide: {unused}" in done.stderr


@pytest.mark.nightly  # tests/cli/CMakeLists.txt stands for it
def test_a_command_that_fails_shows_its_end(fit: Fit) -> None:
    done = fit.run("--", *trains("--fail-at", "0").command)
    assert done.returncode == 1 and not done.stdout
    assert "RuntimeError: deliberate\nebbtide: the measured run ended with exit" in done.stderr


# 15 MiB are less than the 16 that are named, and more than its steps need: a run tells, and it
# fails after the three steps that are measured.
def test_one_that_fails_within_a_budget_is_no_word_on_the_budget(fit: Fit) -> None:
    done = fit.run("--budget", "15MiB", "--", *trains("--fail-at", "5").command)
    assert done.returncode == 1 and not done.stdout, done.stdout + done.stderr
    assert "RuntimeError: deliberate\n" in done.stderr
    assert "ebbtide: the budget run ended with exit status 1. Above are its" in done.stderr


def test_without_a_backward_pass_no_step_is_seen(fit: Fit) -> None:
    done = fit.run("--", PYTHON, "-c", "import torch; torch.ones(3)")
    assert done.returncode == 1 and not done.stdout
    assert "no training step was seen, so nothing can be told: no backward pass" in done.stderr


def test_a_run_that_ends_without_its_report_is_no_word(fit: Fit) -> None:
    trained = "x = torch.ones(4, requires_grad=True)\n(x * x).sum().backward()"
    text = f"import os, torch\n{trained}\nos._exit(0)"
    done = fit.run("--", PYTHON, "-c", text)
    assert done.returncode == 1 and not done.stdout
    assert "or the program ended by os._exit() within its first steps, or its" in done.stderr


def test_a_folder_for_each_rank_is_none_for_a_run(fit: Fit) -> None:
    done = fit.run("--keep", "of-{rank}", "--", PYTHON, "-c", "pass")
    assert done.returncode == 2 and not done.stdout, done
    assert "/of-{rank}: a folder with {rank} in its name cannot hold the runs' files" in done.stderr
    assert not (fit.folder / "of-{rank}").exists()


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "budget_mib"), [(1, 14), pytest.param(2, 20, marks=pytest.mark.nightly)]
)
def test_a_range_is_searched_for_the_real_largest(fit: Fit, ranks: int, budget_mib: int) -> None:
    """Found by training: the value trains, and one that is 3 % larger does not.

    A search takes some six values, two runs each: some 25 s.
    """
    command = script(FIT_TRAIN, "--batch", "{}", ranks=ranks).command
    told = fit.told("--budget", f"{budget_mib}MiB", "--values", "8..100", "--", *command)
    largest = told["largest"]
    assert 8 < largest < 100
    assert len(told["values"]) <= 12, told
    fit.train(trains("--batch", str(largest), ranks=ranks), budget_mib).succeeded()
    larger = trains("--batch", str(int(largest * 1.03) + 1), ranks=ranks)
    done = fit.train(larger, budget_mib)
    assert done.status != 0 or any(report["budget_violations"] for report in done.reports)


@pytest.mark.nightly  # tests/cli/value_search_test.cpp stands for it
def test_a_list_is_run_as_it_is(fit: Fit) -> None:
    command = script(FIT_TRAIN, "--batch", "{}").command
    done = fit.run("--budget", "24MiB", "--values", "200,4", "--", *command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the largest that fits 24MiB: 4\n\nvalue ")
    assert "\n  200 " in done.stdout and "does not fit\n" in done.stdout


def test_it_ends_where_a_process_of_the_program_would_be_waited_for(fit: Fit) -> None:
    program = fit.folder / "helped.py"
    program.write_text(HELPED)
    done = fit.run("--", PYTHON, str(program), forked=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "smallest budget: EBBTIDE_BUDGET=" in done.stdout
    assert "the rest ran" not in done.stdout + done.stderr


# A group in the background would be stopped by the terminal that its program asks.
def test_the_command_has_no_terminal(fit: Fit) -> None:
    program = fit.folder / "alone.py"
    program.write_text(
        "import os, sys\nsys.exit(7 if os.getsid(0) == os.getpid() == os.getpgid(0) else 8)\n"
    )
    done = fit.run("--", PYTHON, str(program), forked=False)
    assert "ended with exit status 7" in done.stderr, done.stderr
