"""The network of programs that are about how something is trained. 1 MiB a value, 4 a block."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS, WIDTH, DEPTH, CLASSES = 1024, 256, 6, 10


class Block(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(F.gelu(self.linear(self.norm(x))))


def network(depth: int = DEPTH) -> nn.Sequential:
    return nn.Sequential(*(Block() for _ in range(depth)), nn.Linear(WIDTH, CLASSES))


def batch(rows: int = ROWS) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, WIDTH)
    return x, x[:, :CLASSES].argmax(1)


def loss_of(model: nn.Module, rows: int = ROWS) -> Tensor:
    """Of a batch of its own."""
    x, y = batch(rows)
    return F.cross_entropy(model(x), y)
