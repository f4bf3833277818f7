"""Trains the tiny net and lets torch.profiler look at its last steps; writes what both saw."""

import argparse
import hashlib
import json
from pathlib import Path

import planner
import torch
import torch.nn.functional as F
from tiny_train import Batches, Net
from torch.profiler import ProfilerActivity, profile

STEPS, LOOKED_AT = 8, 2


def train(profile_to: str) -> dict:
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = Batches(STEPS)
    losses: list[str] = []

    def one(index: int) -> None:
        x, y = batches[index]
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        losses.append(loss.item().hex())
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()

    for index in range(STEPS - LOOKED_AT):
        one(index)
    if profile_to:
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            for index in range(STEPS - LOOKED_AT, STEPS):
                one(index)
        seen.export_chrome_trace(profile_to)
    else:
        for index in range(STEPS - LOOKED_AT, STEPS):
            one(index)
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return {"losses": losses, "parameters_sha256": digest.hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", default="", help="file of torch.profiler's trace")
    parser.add_argument("--out")
    options = parser.parse_args()
    result = train(options.profile)
    if options.out:
        Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
