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
