"""Memory that no budget counts is told all the same."""

import sys
from pathlib import Path

from conftest import MIB
from processes import Program, run

# Each batch is NumPy's, 4 MiB; two of them are alive while the second one is made.
TRAINS_ON_NUMPY = """
import numpy
import torch
net = torch.nn.Linear(256, 256)
for _ in range(5):
    rows = numpy.ones((4096, 256), dtype=numpy.float32)
    net(torch.from_numpy(rows)).sum().backward()
"""


def test_what_numpy_holds_is_told(tmp_path: Path) -> None:
    program = Program((sys.executable, "-c", TRAINS_ON_NUMPY))
    file = tmp_path / "series.prom"
    variables = {"EBBTIDE_BUDGET": "64MiB", "EBBTIDE_TEXTFILE": str(file)}
    done = run(program, variables, tmp_path, out=False).succeeded()
    assert 4 * MIB <= done.report["uncounted_bytes"] <= 8 * MIB
    series = [line for line in file.read_text().splitlines() if "_uncounted_bytes{" in line]
    assert [float(line.split()[-1]) for line in series] == [done.report["uncounted_bytes"]]
