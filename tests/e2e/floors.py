"""Programs of four steps whose smallest possible budget is easily told wrong."""

import argparse
import json
from collections.abc import Callable
from functools import cache
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


def accumulates_gradients(p: torch.Tensor, step: int) -> torch.Tensor:
    """Ten micro-batches of 4 MiB, one after the other."""
    for _ in range(9):
        (torch.randn(ROWS, WIDTH) * p).sum().backward()
    return (torch.randn(ROWS, WIDTH) * p).sum()


class Sine(torch.autograd.Function):
    """Of what a custom Function makes no operation is recorded."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


def runs_custom_functions(p: torch.Tensor, step: int) -> torch.Tensor:
    x = torch.randn(ROWS, WIDTH)
    for _ in range(8):
        x = Sine.apply(x * p)
    return x.sum()


def draws_the_next_batch(p: torch.Tensor, step: int) -> torch.Tensor:
    """Of 4 MiB, before the step is known to be over."""
    return (torch.randn(ROWS, WIDTH) * p).sum()


def has_a_wide_head(p: torch.Tensor, step: int) -> torch.Tensor:
    """As many classes as the logits have rows: they are 4 MiB, and nothing else is large."""
    logits = torch.randn(ROWS, 1) * p
    return torch.nn.functional.cross_entropy(logits, torch.arange(ROWS))


@cache
def layers() -> tuple[list[torch.nn.Parameter], torch.optim.Optimizer]:
    """1 MiB each."""
    weights = [torch.nn.Parameter(torch.eye(WIDTH // 2)) for _ in range(6)]
    return weights, torch.optim.Adam(weights, foreach=True)


def updates_all_at_once(p: torch.Tensor, step: int) -> torch.Tensor:
    """Activations are small; the update takes each weight's size once more, of all together."""
    x = torch.randn(1, WIDTH // 2) * p[: WIDTH // 2]
    for weight in layers()[0]:
        x = x @ weight
    return x.sum()


def update_layers() -> None:
    layers()[1].step()
    layers()[1].zero_grad()


STEPS: dict[str, Step] = {
    "writes_in_place": writes_in_place,
    "leaves_a_tensor": leaves_a_tensor,
    "shrinks": shrinks,
    "accumulates_gradients": accumulates_gradients,
    "runs_custom_functions": runs_custom_functions,
    "draws_the_next_batch": draws_the_next_batch,
    "has_a_wide_head": has_a_wide_head,
    "updates_all_at_once": updates_all_at_once,
}
UPDATES: dict[str, Callable[[], None]] = {"updates_all_at_once": update_layers}


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
        UPDATES.get(options.program, lambda: None)()
        with torch.no_grad():
            p -= 0.1 * p.grad
            p.grad = None
        del loss
        print(f"step {step}", flush=True)
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps({"losses": losses}))


if __name__ == "__main__":
    main()
