"""What Ebbtide adds to a program's end while a plan is searched: ./dev bench exit.

A training ends after three steps, when the planner has been asked for seconds of search that nobody
will use. Timed is from its last statement until its process is gone, in turns with plain PyTorch.
Ebbtide's own is a run's time less that of the plain run beside it; a run that has a plan by then
does not count.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from processes import code, environment  # noqa: E402

MUST_SECONDS = 0.2
PLANNER = "moccasin-local"  # searches as long as it may: 2.5 s
BUDGET = "36MiB"  # of 50 MiB
# Blocks of three activations of 1 MiB. time.monotonic() is the same clock in all processes.
TRAINING = code("""
import time
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    *[m for _ in range(12) for m in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))]
)
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
for step in range(3):
    net(torch.randn(1024, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("ends", time.monotonic(), flush=True)
""")


def end_seconds(variables: dict[str, str], folder: Path) -> float:
    done = subprocess.run(
        TRAINING.command,
        env=environment(TRAINING, variables, folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    gone = time.monotonic()
    ended = re.search(r"^ends ([\d.]+)$", done.stdout, re.M)
    if done.returncode != 0 or ended is None:
        sys.exit(f"the training ended with status {done.returncode}:\n{done.stdout}")
    return gone - float(ended[1])


def was_searching(folder: Path) -> bool:
    return json.loads((folder / "report-0.json").read_text())["plan"] is None


def figures(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.3f} s, most {max(seconds):.3f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    variables = {"EBBTIDE_BUDGET": BUDGET, "EBBTIDE_PLANNER": PLANNER}
    plain, own = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(turns):
            plain.append(end_seconds({}, folder))
            budgeted = end_seconds(variables, folder)
            if was_searching(folder):
                own.append(budgeted - plain[-1])
    print(f"plain PyTorch's end: {figures(plain)}")
    print(f"a search was under way in {len(own)} of {turns} runs under a budget of {BUDGET}")
    if not own:
        return 1
    print(f"Ebbtide's own: {figures(own)} (must: {MUST_SECONDS} s)")
    return 1 if max(own) > MUST_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
