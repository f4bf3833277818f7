"""ebbtide.step() anywhere changes no number, and loops in which no end is seen get a plan by it."""

from pathlib import Path

import pytest
import zoo
from conftest import measure
from hinted_train import OWN
from processes import Finished, Program, code, run, script
from test_zoo import without_times
from tiers import nightly_but


def hinted(name: str, place: str) -> Program:
    return script("tests/e2e/hinted_train.py", "--hints", place, name)


def planned(done: Finished) -> bool:
    return done.report["recomputed_ops"] + done.report["decoded_values"] > 0


@pytest.mark.parametrize("name", nightly_but({"written_by_numpy"}, OWN))
def test_loops_without_a_visible_end_get_a_plan(name: str, tmp_path: Path) -> None:
    baseline = measure(hinted(name, "each"), tmp_path)
    expected = without_times(baseline.plain)
    assert without_times(baseline.measured) == expected
    # Most of the peak is saved tensors: of one step, or of two or three that wait.
    budget = int(0.7 * baseline.measured.report["plain_peak_bytes"])
    done = run(baseline.program, {"EBBTIDE_BUDGET": str(budget)}, tmp_path / "budget").succeeded()
    assert without_times(done) == expected
    assert not done.report["pass_through"] and done.report["budget_violations"] == 0, done.output
    assert planned(done), done.output


@pytest.mark.parametrize(
    ("name", "place"),
    [
        pytest.param("changing_programs.accumulating", "each", marks=pytest.mark.nightly),
        pytest.param("other_models.gan", "each", marks=pytest.mark.nightly),
        pytest.param("life_programs.copying", "twice", marks=pytest.mark.nightly),
        pytest.param("life_programs.saving", "at_first", marks=pytest.mark.nightly),
        ("life_programs.copying", "in_another_thread"),
    ],
)
def test_loops_with_a_visible_end_keep_theirs(name: str, place: str, tmp_path: Path) -> None:
    baseline = measure(hinted(name, place), tmp_path)
    variables = {"EBBTIDE_BUDGET": str(baseline.budget(zoo.program(name).fraction))}
    done = run(baseline.program, variables, tmp_path / "budget").succeeded()
    expected = without_times(baseline.plain)
    assert without_times(done) == without_times(baseline.measured) == expected
    assert not done.report["pass_through"] and done.report["budget_violations"] == 0, done.output
    assert planned(done), done.output


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("life_programs.copying", 1),
        pytest.param("life_programs.failing", 2, marks=pytest.mark.nightly),
        pytest.param("changing_programs.stochastic_depth", 3, marks=pytest.mark.nightly),
        pytest.param("autograd_programs.retain_graph", 4, marks=pytest.mark.nightly),
        pytest.param("other_models.gan", 5, marks=pytest.mark.nightly),
        *(
            pytest.param(name, seed, marks=pytest.mark.nightly)
            for name in ("changing_programs.accumulating", "randomness_programs.dropout")
            for seed in range(6, 12)
        ),
    ],
)
def test_calls_anywhere_change_no_bit(name: str, seed: int, tmp_path: Path) -> None:
    """Half a forward pass may be a step, and its backward pass part of another."""
    figures = measure(hinted(name, "each"), tmp_path)
    program = hinted(name, f"anywhere-{seed}")
    plain = run(program, {}, tmp_path / "plain").succeeded()
    variables = {
        "EBBTIDE_BUDGET": str(figures.budget(zoo.program(name).fraction)),
        "EBBTIDE_ON_INFEASIBLE": "best-effort",  # a step in parts may need more than a whole one
        "EBBTIDE_OFFLOAD": "auto" if seed % 2 else "never",
    }
    done = run(program, variables, tmp_path / "budget").succeeded()
    assert without_times(done) == without_times(plain)
    assert not done.report["pass_through"], done.output
    assert done.report["spilled_bytes"] > 0 and done.report["budget_violations"] == 0, done.output


def test_is_nothing_without_the_plugin(tmp_path: Path) -> None:
    program = code(
        "import ebbtide\n"
        "assert ebbtide.step() is None and ebbtide.stage(0, 1) is None\n"
        "import torch\n"
        "assert ebbtide.step() is None and ebbtide.stage(0, 1) is None\n"
        "assert 'libebbtide' not in open('/proc/self/maps').read()\n"
    )
    assert run(program, {}, tmp_path, out=False).succeeded().output == ""


CALLS = """
import ebbtide
ebbtide.step()
import os, threading, torch
from torch.utils.data import DataLoader

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        ebbtide.stage(0, index)
        ebbtide.step()
        return torch.full((2,), float(index))

def train(count):
    x = torch.ones(3, requires_grad=True)
    for number in range(count):
        ebbtide.stage(number % 3 - 1, number)
        (x * x).sum().backward()
        ebbtide.step()
    assert x.grad.tolist() == 3 * [2.0 * count]

ebbtide.step()
train(3)
threads = [threading.Thread(target=train, args=(count,)) for count in (1, 5)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
child = os.fork()
if child == 0:
    train(2)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
loader = DataLoader(Rows(), batch_size=None, num_workers=2, multiprocessing_context="fork")
assert sum(row[0].item() for row in loader) == 6
"""


def test_may_be_called_in_any_thread_and_process(tmp_path: Path) -> None:
    done = run(code(CALLS), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    # The child is forked after the first step, and runs a backward pass.
    assert not done.said(r"pass-through|\] warning: (?!this process was forked)"), done.output
    assert done.report["steps"] == 3 + 1 + 5  # of this process: the child's are its own
