"""A child that is forked while its parent holds a graph."""

from pathlib import Path

from conftest import MIB
from processes import code, run

FORKS = """
import hashlib, os, torch

torch.manual_seed(1)
w = torch.ones(256, requires_grad=True)
x = torch.randn(1024, 256) * w  # 1 MiB, and so are the 12 sines' saved inputs
for _ in range(12):
    x = (x + 1).sin()
loss = x.mean()
del x

def backward(who):
    try:
        loss.backward()
        print(who, hashlib.sha256(w.grad.numpy().tobytes()).hexdigest(), flush=True)
    except RuntimeError as error:
        print(who, str(error).splitlines()[0], flush=True)

child = os.fork()
if child == 0:
    backward("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
backward("parent")
"""


def test_a_forked_child_is_refused_what_its_parent_has_spilled(tmp_path: Path) -> None:
    plain = run(code(FORKS), {}, tmp_path, out=False).succeeded()
    (child, digest), (parent, same) = (line.split(" ") for line in plain.output.splitlines())
    assert (child, parent) == ("child", "parent") and digest == same

    measured = run(code(FORKS), {"EBBTIDE": "1"}, tmp_path / "measured", out=False).succeeded()
    assert f"child {digest}" in measured.output and f"parent {digest}" in measured.output

    # 12 MiB of saved values do not fit into 6 MiB: some are in the file when the child is made.
    variables = {"EBBTIDE_BUDGET": str(6 * MIB)}
    budgeted = run(code(FORKS), variables, tmp_path / "budgeted", out=False).succeeded()
    assert budgeted.said(
        r"child ebbtide: a forked child cannot run a graph backward .* \[EB74\]"
    ), budgeted.output
    assert f"parent {digest}" in budgeted.output
    assert budgeted.report["spilled_bytes"] > 0
