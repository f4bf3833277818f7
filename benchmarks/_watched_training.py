"""A training that is timed from outside: it writes when each step ended, in seconds (monotonic)."""

import argparse
import time

import torch
from torch import nn

WIDTH = 512
LAYERS = 8
BATCH = 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    blocks = [block for _ in range(LAYERS) for block in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    net = nn.Sequential(*blocks)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(BATCH, WIDTH)
    until = time.monotonic() + arguments.seconds
    with open(arguments.out, "w") as ends:
        while time.monotonic() < until:
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
            print(time.monotonic(), file=ends, flush=True)


if __name__ == "__main__":
    main()
