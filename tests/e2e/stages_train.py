"""Trains two stages of a pipeline over Gloo, for as long as somebody watches.

torchrun --nproc-per-node 2 tests/e2e/stages_train.py --until FILE   # until that file is there
torchrun --nproc-per-node 2 tests/e2e/stages_train.py --steps 4
"""

import argparse
import json
import os
from pathlib import Path

import planner
import torch
import torch.distributed as dist
from pipeline_train import by_hand

MOST_STEPS = 1_000_000  # whoever was to end it is gone


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until", type=Path)
    parser.add_argument("--steps", type=int, default=MOST_STEPS)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    training = by_hand()
    losses: list[str] = []
    for step in range(options.steps):
        losses += [loss.item().hex() for loss in training.step(step)]
        planner.settle()
        ends = torch.tensor(options.until is not None and options.until.exists())
        dist.broadcast(ends, 0)  # both after the same step
        if ends:
            break
    if options.out:
        result = Path(options.out.replace("{rank}", os.environ["RANK"]))
        result.write_text(json.dumps({"losses": losses}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
