"""What a CPU's threads add or overwrite in the order in which they come is kept, and all else may
run again.
"""

import json
from pathlib import Path

import pytest
from processes import code, run

# 256 x 128 numbers are 32,768, from which on PyTorch adds by several threads; it overwrites so from
# 3,000 on. No pair of rows names a place once. Each call is in a step of its own scale.
PROGRAM = """
import sys

import torch

torch.set_num_threads(int(sys.argv[1]))
ROWS, WIDTH = 256, 128
scale = torch.nn.Parameter(torch.ones(WIDTH))
optimizer = torch.optim.SGD([scale], lr=0.1)
rows = torch.arange(ROWS) % 100
columns = torch.arange(WIDTH)
places = torch.arange(ROWS * WIDTH) % 1000
mask = (rows % 2 == 0)[:, None].expand(ROWS, WIDTH)

for step in range(3):
    x = torch.randn(ROWS, WIDTH) * scale
    y = x.sin()
    pairs = (rows[:, None], columns)
    several = [
        y.cos().index_put_((rows,), x, accumulate=True),
        y.cos().index_put_(pairs, x, accumulate=True),
        y.cos().index_put_((rows[:255],), x[:255], accumulate=True),  # 32,640 numbers
        y.double().index_put_((rows,), x.double(), accumulate=True),
        y.cos().index_put_((rows,), torch.ones(()), accumulate=True),
        y.cos().index_put_((rows[:24],), x[:24]),  # 3,072
        y.cos().index_put_((rows[:23],), x[:23]),  # 2,944
        y.cos().index_put_((mask,), x[mask]),
        y.cos().put_(places, x, accumulate=True),
        y.cos().index_copy_(0, rows, x),
        y.cos().scatter_add_(0, rows[:, None].expand(ROWS, WIDTH), x),
        y.cos().index_add_(0, rows, x),
    ]
    loss = sum(one.square().mean().float() for one in several)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

RACES = "adds or overwrites in the order in which its threads come"
# Per call above, with two threads.
INDEXED = [True, True, False, False, False, True, False, False]
OTHERS = {"put_": True, "index_copy_": True, "scatter_add_": False, "index_add_": False}


@pytest.mark.parametrize("threads", [1, 2])
def test_what_races_is_not_run_again(threads: int, tmp_path: Path) -> None:
    program = code(PROGRAM)
    program = type(program)((*program.command, str(threads)))
    variables = {"EBBTIDE": "1", "EBBTIDE_TRACE_DIR": str(tmp_path)}
    run(program, variables, tmp_path, out=False).succeeded()
    (trace,) = (json.loads(path.read_text()) for path in tmp_path.glob("trace-0-1.json"))
    kept = [(name.removeprefix("aten::"), why == RACES) for name, _, _, why, *_ in trace["ops"]]
    races = [race and threads > 1 for race in INDEXED]
    assert [race for name, race in kept if name == "index_put_"] == races
    others = {name: race for name, race in kept if name in OTHERS}
    assert others == {name: race and threads > 1 for name, race in OTHERS.items()}
