"""Budgets in words (docs/configuration.md): what they come to, and from which step on.

Whatever the form, the budget holds once it is known, and no number changes.
"""

import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import MIB
from named_budgets import OPTIMIZERS, PLACES
from processes import Finished, Program, code, run, script
from test_bad_input import REFUSED
from tiers import nightly_but

MEASURED = re.compile(
    r"budget (?P<form>\S+) is (?P<budget>[\d.]+) MiB from step (?P<step>\d+) on: "
    r"plain peak (?P<peak>[\d.]+) MiB, activations (?P<activations>[\d.]+) MiB"
)


@dataclass(frozen=True)
class Said:
    """In MiB, as the one line has it."""

    form: str
    step: int
    budget: float
    peak: float
    activations: float


def said(done: Finished) -> Said:
    found = list(MEASURED.finditer(done.output))
    assert len(found) == 1, done.output
    of = found[0].groupdict()
    figures = {name: float(of[name]) for name in ("budget", "peak", "activations")}
    return Said(of["form"], int(of["step"]), **figures)


def program(optimizer: str, place: str = "after", ranks: int = 1) -> Program:
    arguments = ("--optimizer", optimizer, "--zero", place)
    return script("tests/e2e/named_budgets.py", *arguments, ranks=ranks)


def check_run(trained: Program, budget: str, folder: Path) -> Finished:
    """Bit for bit plain's, and within the budget from the step on in which it is known."""
    plain = run(trained, {}, folder / "plain").succeeded()
    done = run(trained, {"EBBTIDE_BUDGET": budget}, folder / "bounded").succeeded()
    assert done.results == plain.results
    for report in done.reports:
        assert report["mapped_peak_bytes"] <= report["budget_bytes"], budget
        assert report["mode"] == "budget"
    return done


def nearly(a: float, b: float) -> bool:
    """Three figures that are rounded to 0.1 MiB, one of them and another times a share below 1."""
    return abs(a - b) <= 0.151


# The steps in which the base is settled: SGD keeps nothing; AdamW's state comes with the first
# update; gradients that nobody clears stay from the first step on.
CASES = {
    "-50%-sgd-after": ("-50%", 2),
    "-50%-adamw-after": ("-50%", 3),
    "80%peak-adamw-before": ("80%peak", 3),
    "-30%-momentum-middle": ("-30%", 3),
    "-30%-sgd-never": ("-30%", 3),
    "90%peak-sgd-before": ("90%peak", 2),
}


@pytest.mark.parametrize("case", nightly_but({"-50%-adamw-after"}, CASES))
def test_a_share_of_what_a_step_takes(case: str, tmp_path: Path) -> None:
    form, step = CASES[case]
    optimizer, place = case.removeprefix(form + "-").split("-")
    done = check_run(program(optimizer, place), form, tmp_path)
    told = said(done)
    assert (told.form, told.step) == (form, step), done.output
    percent = float(re.search(r"\d+", form)[0]) / 100
    less = told.peak - percent * told.activations
    assert nearly(told.budget, less if form.startswith("-") else percent * told.peak), told
    # As a run without a budget measures its late steps: with the optimizer's state.
    measured = run(program(optimizer, place), {"EBBTIDE": "1"}, tmp_path / "measured").succeeded()
    assert measured.report["peak_bytes"] / MIB == pytest.approx(told.peak, rel=0.03), told
    assert done.report["budget_bytes"] / MIB == pytest.approx(told.budget, abs=0.06)


# The history of L-BFGS grows for ten updates: that ends a run within any budget close to its need.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("optimizer", "place"),
    list(itertools.product([name for name in OPTIMIZERS if name != "lbfgs"], PLACES)),
)
def test_it_is_known_by_step_four_whatever_the_base_does(
    optimizer: str, place: str, tmp_path: Path
) -> None:
    done = check_run(program(optimizer, place), "-25%", tmp_path)
    assert said(done).step <= 4


@pytest.mark.nightly
def test_a_base_that_grows_all_the_time_is_taken_at_step_four(tmp_path: Path) -> None:
    done = run(program("lbfgs"), {"EBBTIDE_BUDGET": "-25%"}, tmp_path)
    assert said(done).step == 4, done.output


# Of two ranks one by its entry: the other one has the default.
@pytest.mark.nightly
def test_ranks_have_forms_of_their_own(tmp_path: Path) -> None:
    done = check_run(program("adamw", ranks=2), "default=auto,rank1=-40%", tmp_path)
    assert said(done).form == "-40%"
    assert done.said(r"rank 0\] .*budget \d[\d.]+ GiB \(auto\)"), done.output
    first, second = done.reports
    assert first["budget_bytes"] > 10 * second["budget_bytes"]


# Of both ranks of a machine: together no more than it has. What is free changes as others come and
# go; tests/plugin/config_test.cpp has the parts.
def test_auto_is_what_the_ranks_can_have(tmp_path: Path) -> None:
    memory = int(re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
    done = check_run(program("sgd", ranks=2), "auto", tmp_path)
    budgets = [report["budget_bytes"] for report in done.reports]
    assert all(budget > 64 * MIB for budget in budgets)
    assert sum(budgets) < memory, done.output
    assert done.output.count("(auto)") == 2, done.output


# Of 22.6 MiB 20 % are 4.5; with everything on the host a step needs 6.2. It is refused as a budget
# in bytes is, and the one that is named trains.
def test_one_that_is_too_small_is_refused_with_the_smallest(tmp_path: Path) -> None:
    trained = program("adamw")
    done = run(trained, {"EBBTIDE_BUDGET": "20%peak"}, tmp_path / "refused")
    assert done.status != 0
    assert done.output.count(REFUSED) == 1, done.output
    assert said(done).step == 3
    named = re.search(r"Smallest budget: (EBBTIDE_BUDGET)=(\d+MiB)", done.output)
    assert named, done.output
    check_run(trained, named[2], tmp_path)


@pytest.mark.parametrize("budget", ["-5GiB", "60peak", "automatic", "-101%", "80"])
def test_what_is_no_budget_ends_the_run_before_it_begins(budget: str, tmp_path: Path) -> None:
    done = run(code("import torch"), {"EBBTIDE_BUDGET": budget}, tmp_path, out=False)
    assert done.status == 2, done.output
    assert f"EBBTIDE_BUDGET={budget}: " in done.output
    assert ("did you mean 80%" if budget == "80" else "Forms: 30GiB") in done.output


# From within, while it trains: the next step has it, and the answer its bytes.
ASKS = """
import json, sys
from pathlib import Path
import ebbtide, torch
torch.manual_seed(0)
net = torch.nn.Sequential(*[
    torch.nn.Sequential(torch.nn.Linear(192, 192), torch.nn.GELU()) for _ in range(8)])
optimizer = torch.optim.AdamW(net.parameters())
told = {}
forms = ["-50%", " - 50 % ", "60%peak", "80%", "AUTO", "none"]
for step in range(14):
    if step >= 4 and forms:
        form = forms.pop(0)
        told[form] = ebbtide.set_budget(form, force=True)
    net(torch.randn(2048, 192)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if ebbtide.is_active() and told and forms:
        assert ebbtide.stats()["memory"]["budget_bytes"] == told[form]["budget_bytes"], form
print("TOLD " + json.dumps(told))
"""


def test_python_takes_each_form_while_it_trains(tmp_path: Path) -> None:
    done = run(code(ASKS), {"EBBTIDE": "1"}, tmp_path, out=False)
    assert done.status == 0, done.output
    told = json.loads(re.search(r"^TOLD (.*)$", done.output, re.MULTILINE)[1])
    assert told["-50%"]["budget_bytes"] == told[" - 50 % "]["budget_bytes"]
    assert 0 < told["-50%"]["budget_bytes"] < told["80%"]["budget_bytes"]
    assert told["none"]["budget_bytes"] is None
    assert 64 * MIB < told["AUTO"]["budget_bytes"]
