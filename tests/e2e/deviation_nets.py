"""Networks of the deviating programs. An activation of theirs is 1 MiB unless told otherwise."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTH, ROWS = 256, 1024  # an activation is 1 MiB
STEADY, STEPS = 10, 14

Train = Callable[[nn.Module, int], list[float]]


def late(step: int) -> bool:
    return step >= STEADY


def batch() -> Tensor:
    return torch.randn(ROWS, WIDTH)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(nn.functional.gelu(self.linear(self.norm(x))))


class Blocks(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(Block() for _ in range(3)))


class MoreBlocks(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(Block() for _ in range(6)))


class Shifted(Blocks):
    """Adds to its input, which saves nothing: the caller may change it afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.shift)


class Scales(nn.Module):
    """Two vectors of weights, for programs of elementwise operations."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Parameter(torch.ones(WIDTH))
        self.extra = nn.Parameter(torch.ones(WIDTH))


class Convolutions(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(nn.Conv2d(16, 16, 3, padding=1) for _ in range(6)))

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self:
            x = convolution(x).sin()
        return x


class Normalised(nn.Sequential):
    def __init__(self) -> None:
        blocks = ((nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh()) for _ in range(4))
        super().__init__(*(layer for block in blocks for layer in block))


class Parts(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(10)))


def chain(x: Tensor, length: int) -> Tensor:
    for _ in range(length):
        x = (x + 1).sin()
    return x
