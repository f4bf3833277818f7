"""Trains within a budget, then asks for too much; what it knows of its memory goes to --out.

Weights and activations are 1 MiB each. The error's text is among the results.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import planner
import torch
from torch import Tensor, nn

MIB = 1 << 20
WIDTH = 512  # 512 x 512 in float32 is 1 MiB
LAYERS = 6
TOO_MUCH = 64  # MiB
greedy = False


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(_: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        if greedy:
            torch.empty(TOO_MUCH * MIB, dtype=torch.uint8)
        return gradient


class Trainer:
    def __init__(self) -> None:
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.optimizer: torch.optim.Optimizer | ByHand = torch.optim.SGD(
            self.layers.parameters(), lr=0.01
        )
        self.held: list[Tensor] = []

    def step(self, copies: int = 1, keep: bool = False) -> None:
        """`copies` of what the middle layer gives are joined."""
        self.optimizer.zero_grad()
        x = torch.randn(WIDTH, WIDTH)
        for index, layer in enumerate(self.layers):
            x = torch.nn.functional.gelu(layer(x))
            if index == LAYERS // 2 - 1:
                x = torch.cat([Greedy.apply(x)] * copies)
        x.square().mean().backward()
        if keep:
            self.held.append(x.detach())
        self.optimizer.step()
        planner.settle()

    def known(self) -> dict:
        """In MiB."""
        weights = list(self.layers.parameters())
        states = [
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor) and value.numel() > 1
        ]
        return {
            "parameters": mib(weights),
            "gradients": mib([weight.grad for weight in weights if weight.grad is not None]),
            "states": mib(states),
            "held": mib(self.held),
        }


def mib(tensors: list[Tensor]) -> float:
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors) / MIB


def forward(trainer: Trainer) -> None:
    trainer.step(copies=TOO_MUCH)


def backward(trainer: Trainer) -> None:
    global greedy
    greedy = True
    trainer.step()


def optimizer(trainer: Trainer) -> None:
    trainer.optimizer = torch.optim.Adam(trainer.layers.parameters())
    trainer.step()


def between_steps(trainer: Trainer) -> None:
    """1 MiB at a time, 64 at most."""
    while len(trainer.held) < TOO_MUCH:
        trainer.held.append(torch.empty(MIB, dtype=torch.uint8))


def evaluation(trainer: Trainer) -> None:
    """Keeps what the network gives for one batch after the other."""
    with torch.no_grad():
        while len(trainer.held) < TOO_MUCH:
            x = torch.randn(WIDTH, WIDTH)
            for layer in trainer.layers:
                x = layer(x)
            trainer.held.append(x)


class ByHand:
    """Plain gradient descent without torch.optim."""

    def __init__(self, layers: nn.ModuleList) -> None:
        self.layers = layers
        self.state: dict = {}

    def zero_grad(self) -> None:
        for weight in self.layers.parameters():
            weight.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for weight in self.layers.parameters():
                weight.sub_(0.01 * weight.grad)


def evaluation_by_hand(trainer: Trainer) -> None:
    trainer.optimizer = ByHand(trainer.layers)
    trainer.step()
    evaluation(trainer)


def kept_outputs(trainer: Trainer) -> None:
    """Each step's last activation stays in a list."""
    while len(trainer.held) < TOO_MUCH:
        trainer.step(keep=True)


PLACES: dict[str, Callable[[Trainer], None]] = {
    function.__name__: function
    for function in (
        forward,
        backward,
        optimizer,
        between_steps,
        evaluation,
        evaluation_by_hand,
        kept_outputs,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("place", choices=PLACES)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    trainer = Trainer()
    for _ in range(10):
        trainer.step()
    message = ""
    try:
        PLACES[options.place](trainer)
    except torch.OutOfMemoryError as error:
        message = str(error)
        print(message, flush=True)
    result = {"message": message, "known": trainer.known()}
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
