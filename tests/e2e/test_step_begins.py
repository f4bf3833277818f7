"""Where a step begins, which ends the one before."""

import re
from pathlib import Path

from processes import code, run

STEPS = """
import ebbtide, torch

net = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss = net(torch.ones(256, 256)).sum()
    loss.backward()
    optimizer.step()
    total = loss.detach() + 1
    average = [p.detach().clone() for p in net.parameters()]
print("ended before:", ebbtide.stats()["steps"])
net(torch.ones(256, 256))
print("ended after:", ebbtide.stats()["steps"])
"""


def test_detach_begins_no_step(tmp_path: Path) -> None:
    """It is told as a custom Function is. Of what it would begin, the next batch was no part; and
    a rank of DDP detaches its parameters before there is any batch."""
    done = run(code(STEPS), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert re.findall(r"ended (\w+): (\d)", done.output) == [("before", "3"), ("after", "4")]


NAMESAKE = """
import ebbtide, torch

class detach(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, batch):
        ctx.save_for_backward(batch)
        return batch @ weight

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0].t() @ grad, None

weight = torch.nn.Parameter(torch.ones(256, 256))
optimizer = torch.optim.SGD([weight], 0.1)
for _ in range(4):
    optimizer.zero_grad()
    detach.apply(weight, torch.ones(256, 256)).sum().backward()
    optimizer.step()
print("ended before:", ebbtide.stats()["steps"])
detach.apply(weight, torch.ones(256, 256))
print("ended after:", ebbtide.stats()["steps"])
"""


def test_a_function_of_that_name_begins_one(tmp_path: Path) -> None:
    """What it saves belongs to the new step, not to the one that its update has ended."""
    done = run(code(NAMESAKE), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert re.findall(r"ended (\w+): (\d)", done.output) == [("before", "3"), ("after", "4")]


UNDER_A_MODE = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Passes(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

torch.manual_seed(0)
net = torch.nn.Sequential(
    *[one for _ in range(8) for one in (torch.nn.Linear(256, 256), torch.nn.GELU())]
)
optimizer = torch.optim.SGD(net.parameters(), 0.05)
for _ in range(16):
    with Passes():
        half = net[:6](torch.randn(384, 256))
    loss = net[6:](half).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss:", loss.item())
"""


def test_what_a_mode_sees_first_is_no_part_of_the_step_before(tmp_path: Path) -> None:
    """Autograd saves before an operation that begins the step is seen. Of 16 steps each ends."""
    plain = run(code(UNDER_A_MODE), {}, tmp_path / "plain", out=False).succeeded()
    within = run(code(UNDER_A_MODE), {"EBBTIDE_BUDGET": "8MiB"}, tmp_path, out=False).succeeded()
    assert re.findall(r"loss: (\S+)", within.output) == re.findall(r"loss: (\S+)", plain.output)
    assert within.report["steps"] == 16, within.output
