"""A training that is asked by lines: `steps N` runs N and answers what processor time they took."""

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

MLP_LAYERS, MLP_WIDTH, MLP_BATCH = 20, 64, 32
CHAIN_OPS, CHAIN_SHAPE = 300, (64, 512)  # 128 KiB a tensor


def mlp() -> Callable[[], None]:
    """What autograd and Python take is nearly all of its step."""
    layers = [nn.Linear(MLP_WIDTH, MLP_WIDTH) for _ in range(MLP_LAYERS)]
    net = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    batch = torch.randn(MLP_BATCH, MLP_WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()

    return step


def chain() -> Callable[[], None]:
    """Small operators. Each saves its input, so a replay runs one operator alone."""
    scale = nn.Parameter(torch.ones(CHAIN_SHAPE[1]))
    optimizer = torch.optim.SGD([scale], lr=0.01)
    batch = torch.randn(CHAIN_SHAPE)

    def step() -> None:
        optimizer.zero_grad()
        x = batch * scale
        for _ in range(CHAIN_OPS):
            x = torch.abs(x)
        x.mean().backward()
        optimizer.step()

    return step


def dispatched(step: Callable[[], None]) -> int:
    """Operators that PyTorch dispatches in a step, as its profiler counts them."""
    with torch.profiler.profile(acc_events=True) as profiler:
        step()
    return sum(e.count for e in profiler.key_averages() if e.key.startswith("aten::"))


def kernel_ns() -> int:
    """What one operator of the chain takes below autograd, at least."""
    x = torch.randn(CHAIN_SHAPE)
    least = sys.maxsize
    with torch.no_grad():
        for _ in range(2000):
            begun = time.thread_time_ns()
            torch.abs(x)
            least = min(least, time.thread_time_ns() - begun)
    return least


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=("mlp", "chain"))
    program = parser.parse_args().program
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = {"mlp": mlp, "chain": chain}[program]()
    for line in sys.stdin:
        asked, _, number = line.strip().partition(" ")
        if asked == "steps":
            begun = time.thread_time_ns()
            for _ in range(int(number)):
                step()
            answer = time.thread_time_ns() - begun
        elif asked == "dispatched":
            answer = dispatched(step)
        elif asked == "kernel":
            answer = kernel_ns()
        else:  # what the plugin counts
            import ebbtide

            answer = ebbtide.stats()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
