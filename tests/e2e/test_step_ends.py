"""Where a step ends when no optimizer tells."""

from pathlib import Path

import pytest
from processes import code, run

PARTS = """
import torch

flat = torch.ones(2, 256)
frozen = torch.nn.Parameter(torch.empty(256), requires_grad=False)
p, fixed = torch.nn.Parameter(torch.empty(256)), torch.nn.Parameter(torch.ones(256))
frozen.data, p.data = flat[0], flat[1]
for _ in range(4):
    x = torch.randn(1024, 256) * fixed
    (x * frozen * p).sin().mean().backward()
    with torch.no_grad():
        p -= p.grad
        p.grad = None
"""


@pytest.mark.parametrize("written_before", [False, True])
def test_a_step_ends_where_one_part_of_a_buffer_is_updated(
    written_before: bool, tmp_path: Path
) -> None:
    """The other part, which is read first, is not trained."""
    text = PARTS.replace("empty(256)", "empty(256).fill_(1)") if written_before else PARTS
    done = run(code(text), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert done.report["steps"] == 4
