"""A small training for `ebbtide fit`: activations in proportion to the batch, an optimizer by name.

Data parallel under torchrun. Plain PyTorch; prints the steps that it made.
"""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, BLOCKS, ROWS = 128, 6, 64  # rows of one sample
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--fail-at", type=int, default=-1, metavar="STEP", help="from 0")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model: nn.Module = nn.Sequential(*(Block() for _ in range(BLOCKS)))
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = OPTIMIZERS[arguments.optimizer](model.parameters())
    for step in range(arguments.steps):
        if step == arguments.fail_at:
            raise RuntimeError("deliberate")
        x = torch.randn(arguments.batch * ROWS, WIDTH)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        print("step", step, flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
