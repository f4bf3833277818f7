"""A stack of residual blocks on batches of rows; an activation of it is 2 MiB."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Training, supervised

WIDTH, ROWS, BLOCKS, CLASSES = 128, 4096, 4, 10


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
    )


class Stack(nn.Module):
    def __init__(self, block: Callable[[], nn.Module] = mlp, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def batch() -> tuple[Tensor, Tensor]:
    x = torch.randn(ROWS, WIDTH)
    return x, x[:, :CLASSES].argmax(1)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def classified(model: nn.Module) -> Training:
    """Another batch in each step."""

    def loss(_: int) -> Tensor:
        x, labels = batch()
        return F.cross_entropy(model(x), labels)

    return supervised(model, loss)


def stacked(block: Callable[[], nn.Module]) -> Callable[[], Training]:
    return lambda: classified(Stack(block))
