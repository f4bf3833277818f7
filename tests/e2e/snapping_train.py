"""Trains the tiny net, asks for a snapshot of a step, and opens it with torch's own viewers."""

import argparse
import json
import pickle
from pathlib import Path

import ebbtide
import planner
import torch
import torch.nn.functional as F
from tiny_train import Batches, Net
from torch.cuda import _memory_viz

STEPS, SNAP_AFTER = 10, 7


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = Batches(STEPS)
    told = {}
    for index in range(STEPS):
        x, y = batches[index]
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
        if index == SNAP_AFTER:
            told["path"] = ebbtide.snapshot(options.path)
            told["second"] = ""
            try:
                ebbtide.snapshot()
            except RuntimeError as error:
                told["second"] = str(error)
    while not Path(options.path).exists():  # its thread writes it
        planner.time.sleep(0.01)
    snapshot = pickle.loads(Path(options.path).read_bytes())
    same = lambda lines: lines  # noqa: E731  (else a script is fetched that draws them)
    told |= {
        "snapshot": snapshot,
        "parameters": {p.data_ptr(): p.nbytes for p in net.parameters()},
        "pages": [_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)],
        "blocks": _memory_viz.memory(snapshot, same),
        "by_segment": _memory_viz.segments(snapshot, same),
        "segsum": _memory_viz.segsum(snapshot),
        "trace": _memory_viz.trace(snapshot),
    }
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
