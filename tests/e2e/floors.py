"""Programs of four steps whose smallest possible budget is easily told wrong."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch

ROWS, WIDTH = 1024, 1024  # 4 MiB

Step = Callable[[torch.Tensor, int], torch.Tensor]


def writes_in_place(p: torch.Tensor, step: int) -> torch.Tensor:
    """A sum of 4 MiB that is written in place; nothing of it is saved."""
    y = torch.randn(ROWS, 1) * p
    y.add_(1.0)
    return y.sum()


def leaves_a_tensor(p: torch.Tensor, step: int) -> torch.Tensor:
    """What is saved for `auxiliary` is there at the step's end, and never run backward."""
    t = (torch.randn(ROWS, WIDTH) * p).sin()
    leaves_a_tensor.auxiliary = (t[:8] * p).sigmoid()
    a, b, c = t.exp(), t.cos(), t.tanh()
    return (a * b * c + a * c).mean()


def shrinks(p: torch.Tensor, step: int) -> torch.Tensor:
    """Every other step is a 16th of the others."""
    t = torch.randn(ROWS // (16 if step % 2 else 1), WIDTH)
    for _ in range(4):
        t = (t + p).sin()
    return t.mean()


STEPS: dict[str, Step] = {
    "writes_in_place": writes_in_place,
    "leaves_a_tensor": leaves_a_tensor,
    "shrinks": shrinks,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=STEPS)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.ones(WIDTH))
    losses = []
    for step in range(4):
        loss = STEPS[options.program](p, step)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            p -= 0.1 * p.grad
            p.grad = None
        del loss
        print(f"step {step}", flush=True)
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps({"losses": losses}))


if __name__ == "__main__":
    main()
