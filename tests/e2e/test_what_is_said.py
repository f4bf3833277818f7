"""What a run says of itself where its steps are not all alike."""

import sys
from pathlib import Path

from processes import Finished, Program, run

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


def trained(loop: str, budget: str, folder: Path) -> Finished:
    program = Program((sys.executable, "-c", NET + loop))
    variables = {
        "EBBTIDE_BUDGET": budget,
        "PYTHONPATH": str(Path(__file__).parent),
        "EBBTIDE_AUDIT_CACHE": "off",
    }
    return run(program, variables, folder, out=False).succeeded()


def test_a_small_last_batch_is_not_the_whole_run(tmp_path: Path) -> None:
    """The step of 1,024 rows needs 32.7 MiB, that of 256 fits into 24."""
    loop = "for rows in 2 * ([1024] * 5 + [256]): step(rows)"
    done = trained(loop, "24MiB", tmp_path)
    assert done.said("plan by ") and not done.said("nothing to do"), done.output
    # The first two or three are recorded and rehearsed.
    assert done.report["followed_steps"] >= 3, done.output


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
"""
    done = trained(loop, "24MiB", tmp_path)
    said = "each step leaves spilled values behind that nothing reads: .* made by aten::"
    assert done.said(said), done.output
    assert done.output.count("leaves spilled values") == 1, done.output
