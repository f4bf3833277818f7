"""Ops that PyTorch does not tell of, for none matters there, end where they matter again."""

import re
from pathlib import Path

import pytest
from processes import ROOT, Finished, code, run

# A tensor hook raises in one backward pass of twelve: its step goes on with the next pass, whose
# optimizer ends it. So 11 steps.
FAILING = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def fail(gradient):
    raise RuntimeError("no gradient")

for step in range(12):
    optimizer.zero_grad()
    middle = net[:2](torch.ones(4, 8))
    if step == 8:
        middle.register_hook(fail)
    try:
        net[2](middle).mean().backward()
    except RuntimeError as error:
        assert "no gradient" in str(error)
        continue
    optimizer.step()
"""

# Between the forward and the backward pass of each of its 8 steps the main thread waits for another
# one, which runs 3 steps of its own: 32 in all.
THREADS = """
import threading

import ebbtide
import torch

def trainer():
    net = torch.nn.Linear(8, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)

def other():
    net, optimizer = trainer()
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(4, 8)).mean().backward()
        optimizer.step()
    ebbtide.step()  # else its last step ends with the thread, maybe after join()

net, optimizer = trainer()
for _ in range(8):
    optimizer.zero_grad()
    loss = net(torch.ones(4, 8)).mean()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    loss.backward()
    optimizer.step()
"""

# Between its forward and backward passes a step evaluates, and is hinted to end after the second
# one: 10 steps of 2 passes.
HINTED = """
import ebbtide
import torch

net = torch.nn.Linear(8, 1)
for _ in range(10):
    for _ in range(2):
        loss = net(torch.ones(4, 8)).mean()
        with torch.no_grad():
            net(torch.ones(2, 8))
        loss.backward()
    ebbtide.step()
"""

# What begins and ends a stretch of untold ops, in each of 12 steps: a backward pass within the
# forward pass, an evaluation, a new thread that reads what is trained and allocates nothing. And
# what ends the step is told by nobody: writes through .data.
OWN_UPDATES = """
import threading

import torch

torch.manual_seed(1)
net = torch.nn.Sequential(
    torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Dropout(), torch.nn.Linear(32, 1))
copies = [torch.zeros(p.shape) for p in net.parameters()]

def copy():
    with torch.no_grad():
        for kept, p in zip(copies, net.parameters()):
            kept.copy_(p)

for step in range(12):
    x = torch.randn(16, 32, requires_grad=True)
    loss = net(x).mean()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    with torch.no_grad():
        net(torch.randn(4, 32))
    loss = loss + slope.square().sum() + net(x).square().mean()
    thread = threading.Thread(target=copy)
    thread.start()
    thread.join()
    loss.backward()
    for p in net.parameters():
        p.data.sub_(0.1 * p.grad)
        p.grad = None
"""

# A child is made between the two passes of the 9th step of 14, ends that step and trains on.
FORKED = """
import os

import torch

torch.manual_seed(1)
net = torch.nn.Sequential(
    torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Dropout(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
child = None
for step in range(14):
    optimizer.zero_grad()
    loss = net(torch.randn(16, 32)).square().mean()
    if step == 8:
        child = os.fork()
        assert child == 0 or os.waitpid(child, 0)[1] == 0
    loss.backward()
    optimizer.step()
"""

# A budget is asked for between the two passes of the 9th step of 20: the next one has it. A step
# saves some 2.25 MiB for each of the 6 blocks (of 2048 x 128 floats two tensors, of bools one),
# most of its peak: 40 % less is not to be had without replays.
BUDGETED = f"""
import sys

sys.path.insert(0, {str(ROOT / "tests/e2e")!r})
import ebbtide
import planner
import torch

torch.manual_seed(1)
net = torch.nn.Sequential(*[
    torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.GELU(), torch.nn.Dropout())
    for _ in range(6)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    loss = net(torch.randn(2048, 128)).square().mean()
    if step == 8 and ebbtide.is_active():
        ebbtide.set_budget("-40%", force=True)
    loss.backward()
    optimizer.step()
    planner.settle()
"""

# 400 MiB fit. The linear layer's tensors are smaller than what is ever spilled, so that no op is
# told, up to the product, whose 128 KiB are saved for Ebbtide: detaching its result is told again.
# Of 12 steps each third one detaches it before its backward pass, and fails.
DETACHED = """
import torch

torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
scale = torch.nn.Parameter(torch.ones(512))
net.scale = scale
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    small = net(torch.randn(4, 8)).mean()
    product = torch.randn(64, 512) * scale
    loss = product.sin().mean() + small
    if step % 3 == 2:
        product.detach_()
        del product
    try:
        loss.backward()
    except RuntimeError as error:
        assert "has been detached in-place" in str(error)
        print("detached", step, flush=True)
        continue
    optimizer.step()
"""

SHOWS_BITS = """
import hashlib

bits = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
print("bits", hashlib.sha256(bits).hexdigest(), flush=True)
"""


MEASURED, FITS = {"EBBTIDE": "1"}, {"EBBTIDE_BUDGET": "400MiB"}
either = pytest.mark.parametrize("variables", [MEASURED, FITS], ids=["measured", "fits"])


def steps_of(program: str, variables: dict[str, str], folder: Path) -> int:
    return run(code(program), variables, folder, out=False).succeeded().report["steps"]


@either
def test_a_backward_pass_that_fails_outside_of_its_nodes(
    variables: dict[str, str], tmp_path: Path
) -> None:
    assert steps_of(FAILING, variables, tmp_path) == 11


@either
def test_a_thread_that_begins_to_train_between_two_passes_of_another(
    variables: dict[str, str], tmp_path: Path
) -> None:
    assert steps_of(THREADS, variables, tmp_path) == 32


@either
def test_hints_after_passes_in_which_no_op_was_told(
    variables: dict[str, str], tmp_path: Path
) -> None:
    assert steps_of(HINTED, variables, tmp_path) == 10


def bits_of(done: Finished) -> list[str]:
    return re.findall(r"^bits (\w+)$", done.output, re.MULTILINE)


def as_plain(
    program: str, folder: Path, processes: int = 1, variables: dict[str, str] = MEASURED
) -> Finished:
    """With the bits of PyTorch alone, in each of its processes."""
    plain = run(code(program), {}, folder / "plain", out=False).succeeded()
    done = run(code(program), variables, folder / "done", out=False).succeeded()
    assert len(bits_of(plain)) == processes and len({*bits_of(plain)}) == 1
    assert bits_of(done) == bits_of(plain), done.output
    return done


@either
def test_updates_that_nobody_tells_end_steps(variables: dict[str, str], tmp_path: Path) -> None:
    done = as_plain(OWN_UPDATES + SHOWS_BITS, tmp_path, variables=variables)
    assert done.report["steps"] == 12


@either
def test_a_saved_tensor_that_is_detached(variables: dict[str, str], tmp_path: Path) -> None:
    done = as_plain(DETACHED + SHOWS_BITS, tmp_path, variables=variables)
    assert re.findall(r"^detached (\d+)$", done.output, re.MULTILINE) == ["2", "5", "8", "11"]


def test_a_child_that_is_forked_between_two_passes(tmp_path: Path) -> None:
    program = FORKED + SHOWS_BITS + "if child == 0:\n    os._exit(0)\n"
    assert as_plain(program, tmp_path, processes=2).report["steps"] == 14


def test_a_budget_that_comes_between_two_passes(tmp_path: Path) -> None:
    done = as_plain(BUDGETED + SHOWS_BITS, tmp_path)
    assert done.report["recomputed_ops"] > 0
    assert done.report["steps"] == 20
