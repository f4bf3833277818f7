"""What a run says of itself where its steps are not all alike."""

import math
import re
import sys
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, run
from tiers import nightly_but

NET = """
import torch
from torch import nn
import planner
torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(
    nn.Linear(64, 256),
    *[m for _ in range(8) for m in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))],
    nn.Linear(256, 10),
)
optimizer = torch.optim.AdamW(net.parameters())
def loss(rows):
    return nn.functional.cross_entropy(net(torch.randn(rows, 64)), torch.randint(0, 10, (rows,)))
def step(rows):
    loss(rows).backward()
    optimizer.step()
    optimizer.zero_grad()
    planner.settle()
"""


def ran(text: str, variables: dict[str, str], folder: Path) -> Finished:
    paths = {"PYTHONPATH": str(Path(__file__).parent)}
    program = Program((sys.executable, "-c", text))
    return run(program, variables | paths, folder, out=False).succeeded()


def trained(loop: str, budget: str, folder: Path) -> Finished:
    return ran(NET + loop, {"EBBTIDE_BUDGET": budget}, folder)


def said(done: Finished) -> list[str]:
    return [line for line in done.output.splitlines() if line.startswith("[ebbtide")]


def test_a_small_last_batch_is_not_the_whole_run(tmp_path: Path) -> None:
    """The step of 1,024 rows needs 32.7 MiB, that of 256 fits into 24."""
    loop = "for rows in 2 * ([1024] * 5 + [256]): step(rows)"
    done = trained(loop, "24MiB", tmp_path)
    assert done.said("plan by ") and not done.said("nothing to do"), done.output
    # The first two or three are recorded and verified.
    assert done.report["followed_steps"] >= 3, done.output


def test_a_small_first_batch_is_not_the_whole_run(tmp_path: Path) -> None:
    loop = "for rows in [256] * 6 + [1024] * 10: step(rows)"
    done = trained(loop, "24MiB", tmp_path)
    assert done.said("nothing to do so far: ") and done.said("plan by "), done.output
    ended = [line for line in said(done) if "ended after" in line]
    assert len(ended) == 1 and "nothing" not in ended[0], done.output


def test_half_of_the_activations_is_named_with_the_optimizers_state(tmp_path: Path) -> None:
    """8 layers of 256 x 256 are 2.1 MiB of parameters, and as much of gradients. AdamW's state,
    twice that, comes with the first update: nothing under 8.4 MiB trains."""
    ample = trained("for _ in range(20): step(256)", "8GiB", tmp_path / "ample").succeeded()
    named = re.findall(r"Half of the activations would be EBBTIDE_BUDGET=(\d+)MiB", ample.output)
    assert len(named) == 1 and int(named[0]) > 9, ample.output
    done = trained("for _ in range(20): step(256)", f"{named[0]}MiB", tmp_path / "named")
    assert done.succeeded().report["steps"] == 20, done.output


def test_the_report_of_steps_that_all_differ(tmp_path: Path) -> None:
    done = trained("for i in range(12): step(1024 - 7 * i)", "24MiB", tmp_path)
    report = done.report
    assert report["plain_peak_bytes"] > 24 << 20, done.output
    assert 0 < report["recomputable_bytes"] <= report["activation_bytes"], done.output
    assert (
        sum(report["kept_bytes"].values()) + report["recomputable_bytes"]
        == (report["activation_bytes"])
    )
    # 25 values of 1 MiB; AdamW's 4 MiB, which the first step makes, are none of them.
    assert report["activation_bytes"] < 27 << 20, done.output
    assert report["followed_steps"] == 0 and report["plan"] is not None, done.output
    assert done.output.count("plan by ") <= 3, done.output


def test_graphs_that_never_run_backward_are_named(tmp_path: Path) -> None:
    loop = """
total = 0
for i in range(14):
    step(512)
    total = total + loss(512)
    print("added", i, flush=True)
"""
    done = trained(loop, "24MiB", tmp_path)
    assert_named_after_eight(done)


def assert_named_after_eight(done: Finished) -> None:
    pattern = "steps leave spilled values behind that nothing reads: .* made by aten::"
    assert done.said(pattern), done.output
    assert done.output.count("leave spilled values") == 1, done.output
    # A step that ends tells of eight before it.
    before, _, _ = done.output.partition("leave spilled values")
    assert before.count("added ") >= 8, done.output


def test_graphs_of_every_second_step_are_named_and_some_that_are_let_go_of_are_not(
    tmp_path: Path,
) -> None:
    """Six graphs at a time are fewer than eight, however often they come."""
    loop = """
kept = []
for i in range(10):
    step(512)
    kept.append(loss(512))
    if len(kept) == 6: kept.clear()
kept.clear()
total = 0
for i in range(20):
    step(512)
    if i % 2: continue
    total = total + loss(512)
    print("added", i, flush=True)
"""
    assert_named_after_eight(trained(loop, "24MiB", tmp_path))


ALIKE = """
import torch
from torch import nn
import planner
torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(64, 64), nn.GELU())])
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(1000):
    net(torch.randn(512, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step < 8:
        planner.settle()
"""


def test_a_thousand_steps_that_are_all_alike(tmp_path: Path) -> None:
    """A step needs 2.8 MiB, and 1 MiB is left free."""
    done = ran(ALIKE, {"EBBTIDE_BUDGET": "3MiB"}, tmp_path)
    assert 2 <= len(said(done)) <= 5 and done.said("plan by "), done.output
    report = done.report
    assert report["steps"] == 1000
    first = report["first_planned_step"]
    assert first < 50 and report["followed_steps"] >= 0.95 * (1000 - first), done.output


BESIDE = """
import threading
import torch
import planner
begun, ended = threading.Event(), threading.Event()

def for_ever():
    weight = torch.eye(64, requires_grad=True)
    while not ended.wait(0.002):
        y = weight
        for _ in range(4):
            y = torch.tanh(y @ weight)
        y.sum().backward()
        weight.grad = None
        begun.set()

other = threading.Thread(target=for_ever, daemon=True)
other.start()
begun.wait()
torch.manual_seed(0)
torch.set_num_threads(1)
weights = [(torch.randn(256, 256) / 11).requires_grad_() for _ in range(16)]
optimizer = torch.optim.SGD(weights, 1e-2)
def train():
    for _ in range(40):
        for _ in range(2):  # passes of the other thread, while it is not refused its memory
            begun.clear()
            begun.wait(5 if other.is_alive() else 0)
        y = torch.randn(1024, 256)
        for weight in weights:
            y = torch.nn.functional.gelu(y @ weight)
        loss = y.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        planner.settle()
    return loss
try:
    print("loss", train().item().hex())
finally:
    ended.set()
    other.join()
"""


def loss_of(done: Finished) -> str:
    (loss,) = re.findall(r"^loss (\S+)$", done.output, re.M)
    assert math.isfinite(float.fromhex(loss)), done.output  # nan is like any other
    return loss


ONCE = "torch.tanh(weight @ weight).sum().backward(); weight.grad = None"
KEPT = "kept = torch.tanh(weight @ weight).sum(); kept.backward(retain_graph=True)"
EYE = "    weight = torch.eye(64, requires_grad=True)\n"
# The other thread ends at once. A plan is made within the first 5 steps: 12 are enough.
ALONE = BESIDE.replace(EYE, "    return begun.set()\n").replace("range(40)", "range(12)")


def after(pass_before: str) -> str:
    """What the other thread runs before its passes, all of them forward."""
    return BESIDE.replace(EYE, f"{EYE}    {pass_before}\n").replace("y.sum().backward()", "del y")


PASSES = {
    "backward": BESIDE,
    "backward_once": after(ONCE),  # an actor that warms up
    "kept_graph": after(KEPT),
    "forward": BESIDE.replace("y.sum().backward()", "del y"),
    # Its last results live until the next ones are there.
    "forward_keeps": BESIDE.replace("        y = weight\n", "        y, last = weight, y\n")
    .replace("    weight = torch.eye", "    y = None\n    weight = torch.eye")
    .replace("y.sum().backward()", "pass"),
}


def check_as_without_it(done: Finished, alone: Finished) -> None:
    """A step alone needs 42.0 MiB: 5 of weights and batch, 4 of gradients, 32 of results, and one
    of loss.square(). A plan may take 29.5 of the 30.5 MiB. So it drops 13 of the results, of 1 MiB
    and one op each, and keeps 29.0. The other thread has a weight, its gradient, 8 results and a
    few gradients of 16 KiB: less than the 0.5 MiB that are left. It may be a part of the peak, but
    needs no more drops. Which of the equal layers are dropped depends on their measured times."""
    plan, without = done.report["plan"], alone.report["plan"]
    said = alone.output + done.output
    assert plan["recomputed_ops"] == without["recomputed_ops"] == 13, said
    more = plan["predicted_peak_bytes"] - without["predicted_peak_bytes"]
    assert abs(more) < MIB / 2, said


# Over 20 s: two threads share a processor, and the trainer waits for the turn to be handed on.
@pytest.mark.parametrize("passes", nightly_but({"backward"}, PASSES))
def test_a_second_thread_that_ends_no_step(passes: str, tmp_path: Path) -> None:
    """It runs for ever and writes no parameter; the trainer has the plan that it has alone."""
    plain = ran(PASSES[passes], {}, tmp_path / "plain")
    variables = {"EBBTIDE_BUDGET": "30.5MiB", "EBBTIDE_PLANNER": "greedy"}  # gives equal plans
    done = ran(PASSES[passes], variables, tmp_path / "planned")
    assert loss_of(done) == loss_of(plain)
    assert done.said("plan by ") and done.report["followed_steps"] > 0, done.output
    check_as_without_it(done, ran(ALONE, variables, tmp_path / "alone"))
    if passes == "backward":
        return  # its turn is handed on after 32 passes; a forward pass's to the second step
    assert done.report["followed_steps"] > done.report["steps"] // 4, done.output
    most_steps = 4 if passes == "backward_once" else 3  # the warm-up counts as a step
    for turn in range(3):
        program = Program((sys.executable, "-c", PASSES[passes]))
        paths = {"PYTHONPATH": str(Path(__file__).parent), "EBBTIDE_BUDGET": "2MiB"}
        refused = run(program, paths, tmp_path / f"refused-{turn}", out=False)
        assert refused.status == 1 and refused.report["steps"] <= most_steps, refused.output
        # A thread that has ended no step yet is told, too.
        (named,) = set(re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\w+)", refused.output))
        again = ran(PASSES[passes], {"EBBTIDE_BUDGET": named}, tmp_path / f"named-{turn}")
        assert loss_of(again) == loss_of(plain)
