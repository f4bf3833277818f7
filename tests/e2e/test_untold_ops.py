"""Ops that PyTorch does not tell of, for none matters there, end where they matter again."""

from pathlib import Path

from processes import code, run

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


def steps_of(program: str, folder: Path) -> int:
    return run(code(program), {"EBBTIDE": "1"}, folder, out=False).succeeded().report["steps"]


def test_a_backward_pass_that_fails_outside_of_its_nodes(tmp_path: Path) -> None:
    assert steps_of(FAILING, tmp_path) == 11


def test_a_thread_that_begins_to_train_between_two_passes_of_another(tmp_path: Path) -> None:
    assert steps_of(THREADS, tmp_path) == 32


def test_hints_after_passes_in_which_no_op_was_told(tmp_path: Path) -> None:
    assert steps_of(HINTED, tmp_path) == 10
