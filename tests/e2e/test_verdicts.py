"""What a verdict counts besides the steps of one program that are alike."""

import re
import sys
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, run

NET = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(
    *[m for _ in range(6) for m in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))],
)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
def step(rows):
    net(torch.randn(rows, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("a step of", rows)
"""


def trained(loop: str, budget: str, folder: Path) -> Finished:
    program = Program((sys.executable, "-c", NET + loop))
    return run(program, {"EBBTIDE_BUDGET": budget}, folder, out=False)


def named_mib(done: Finished) -> int:
    found = re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\d+)MiB", done.output)
    assert done.status != 0 and found, done.output
    return int(found[-1])


def test_loading_may_need_more_than_any_step(tmp_path: Path) -> None:
    """Steps of 512 rows need some 8 MiB; before them 60 MiB live at a time."""
    loading = "state = [torch.zeros(10 << 18) for _ in range(6)]\ndel state\n"
    loop = loading + "for _ in range(6): step(512)\n"
    refused = trained(loop, "40MiB", tmp_path / "refused")
    assert refused.said("before its first step, needed at least 6.\\.. MiB, more than the budget")
    assert refused.said("Most is needed by what the program allocated before its first step")
    named = named_mib(refused)
    assert 60 < named < 80
    done = trained(loop, f"{named}MiB", tmp_path / "named").succeeded()
    assert done.report["budget_violations"] == 0
    assert done.report["mapped_peak_bytes"] <= named * MIB


def test_programs_that_take_turns_are_refused_too(tmp_path: Path) -> None:
    """No step has the shapes of the one before."""
    done = trained("for i in range(40): step(2048 + 64 * i)\n", "8MiB", tmp_path)
    assert named_mib(done) > 8
    assert len(re.findall("a step of", done.output)) <= 4
    assert len(re.findall("needed at least", done.output)) == 1, done.output


def test_what_no_machine_has_is_no_word_on_the_program(tmp_path: Path) -> None:
    """Each step tries for 32 TiB and goes on without, as it does in plain PyTorch."""
    loop = """
for _ in range(20):
    try:
        torch.empty(1 << 45, dtype=torch.uint8)
        raise SystemExit("there were 32 TiB")
    except RuntimeError:
        step(512)
"""
    done = trained(loop, "3MiB", tmp_path)
    assert named_mib(done) > 3
    assert len(re.findall("a step of", done.output)) <= 4
    assert len(re.findall("needed at least", done.output)) == 1, done.output


def test_a_base_that_grows_later_is_no_refusal(tmp_path: Path) -> None:
    """A second network comes before the seventh step: 6 layers of 256 x 256 weights and three
    vectors are 1.5 MiB, as the first one. A step begins with that and its batch of 0.5 MiB."""
    loop = """
import copy
for i in range(14):
    if i == 6:
        second = copy.deepcopy(net)
    step(512)
"""
    done = trained(loop, "40MiB", tmp_path).succeeded()
    grown = r"grown from ([\d.]+) MiB at step \d+ to ([\d.]+) MiB at step (\d+)(.*)"
    ((before, after, step, maker),) = re.findall(grown, done.output)  # said once
    assert float(before) == pytest.approx(2.0, abs=0.2), done.output
    assert float(after) - float(before) == pytest.approx(1.5, abs=0.2), done.output
    assert int(step) in (7, 8), done.output  # told when a second step begins with it
    made = "; aten::clone made 1.5 MiB in 6 blocks of 256.0 KiB after step 6 began"
    assert maker.startswith(made), done.output
    assert len(re.findall("a step of", done.output)) == 14
    # The smallest budget of a run whose base has grown is that of the base that it ended with.
    smallest = -(-done.report["smallest_feasible_budget_bytes"] // MIB)
    assert smallest < 20
    again = trained(loop, f"{smallest}MiB", tmp_path / "smallest").succeeded()
    assert len(re.findall("a step of", again.output)) == 14
    assert again.report["budget_violations"] == 0


def test_an_average_of_the_weights_that_comes_later_is_named(tmp_path: Path) -> None:
    """A copy of the six weights, made after the seventh step; from then on it is written alone."""
    loop = """
from torch.optim.swa_utils import AveragedModel
average = None
for i in range(14):
    step(512)
    if i >= 6:
        average = average or AveragedModel(net)
        average.update_parameters(net)
"""
    done = trained(loop, "40MiB", tmp_path).succeeded()
    made = r"grown from .* at step \d+; aten::clone made 1\.5 MiB in 6 blocks of 256\.0 KiB "
    made += r"after step 7 began \[EB08\]$"
    assert len(re.findall(made, done.output, re.M)) == 1, done.output


def test_a_history_that_lbfgs_fills_is_named(tmp_path: Path) -> None:
    """Each step adds a direction and a change of the gradient to it, of 1.5 MiB each."""
    loop = """
optimizer = torch.optim.LBFGS(net.parameters(), 1e-3, max_iter=1, history_size=20)
rows = torch.randn(512, 256)
def closure():
    optimizer.zero_grad()
    loss = net(rows).square().mean()
    loss.backward()
    return loss
for i in range(14):
    print("a step of", i, optimizer.step(closure).item())
"""
    done = trained(loop, "80MiB", tmp_path).succeeded()
    assert len(re.findall("a step of", done.output)) == 14
    made = "; the last step kept 3.0 MiB more, made by the optimizer's step [EB08]\n"
    assert 1 <= done.output.count(made) == done.output.count("grown from") <= 4, done.output


def test_copies_that_are_kept_between_steps_are_named(tmp_path: Path) -> None:
    """One of a layer's weights after each step: no operation of the step's, nor the optimizer's."""
    loop = """
kept = []
for i in range(14):
    step(512)
    if i >= 5:
        kept.append(net[0].weight.data.clone())
"""
    done = trained(loop, "40MiB", tmp_path).succeeded()
    made = r"; aten::clone made [\d.]+ [MK]iB in \d+ blocks of 256\.0 KiB \d times since step \d+"
    assert re.search(f"grown from .*{made}", done.output), done.output


def test_what_lives_through_one_step_is_no_need_of_the_next(tmp_path: Path) -> None:
    """Steps of 512 rows need some 8 MiB. 60 MiB more live through the second one, as DDP's first
    buckets may: that one goes over 40 MiB, those that follow do not."""
    loop = """
for i in range(8):
    net(torch.randn(512, 256)).square().mean().backward()
    if i == 0:
        guest = torch.zeros(15 << 20)
    optimizer.step()
    optimizer.zero_grad()
    if i == 1:
        del guest
    print("a step of", 512)
"""
    done = trained(loop, "40MiB", tmp_path).succeeded(over_budget=True)
    assert done.said(r"needed at least \d\d\.\d MiB, more than the budget of 40.0 MiB"), done.output
    assert done.report["budget_violations"] > 0
    assert len(re.findall("a step of", done.output)) == 8
    assert done.report["smallest_feasible_budget_bytes"] < 20 * MIB
