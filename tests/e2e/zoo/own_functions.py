"""Functions with a backward pass of their own, and blocks that call them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from zoo.stack import WIDTH


class Swish(Function):
    """Saves its input and an intermediate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x, gate = ctx.saved_tensors
        return gradient * gate * (1 + x * (1 - gate))


class ScaledRelu_(Function):  # noqa: N801 as PyTorch names what writes in place
    """Writes to its input and saves its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        x.clamp_(min=0).mul_(factor)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return gradient * (result > 0) * ctx.factor, None


class Largest(Function):
    """Gives tensors, one of them not differentiable, and what is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> tuple[Tensor, Tensor, int, str, None]:
        values, indices = x.topk(count, dim=1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices, None)
        ctx.shape = x.shape
        return values, indices, count, "largest", None

    @staticmethod
    def backward(ctx: Any, values: Tensor, *_: Any) -> tuple[Tensor, None]:
        indices, nothing = ctx.saved_tensors
        assert nothing is None
        return values.new_zeros(ctx.shape).scatter_(1, indices, values), None


class SinCos(Function):
    """Nobody may ask for one of its results: its gradient is None then."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, sine: Tensor | None, cosine: Tensor | None) -> Tensor | None:
        sin, cos = ctx.saved_tensors
        gradient = None if sine is None else sine * cos
        if cosine is not None:
            other = -cosine * sin
            gradient = other if gradient is None else gradient + other
        return gradient


class Saving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(Swish.apply(self.linear(self.norm(x))))


class Dirtying(Saving):
    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        return torch.tanh(ScaledRelu_.apply(y * 2, 0.5))


class Selecting(Saving):
    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        values, indices, count, name, nothing = Largest.apply(y, WIDTH // 2)
        assert count == WIDTH // 2 and name == "largest" and nothing is None
        return torch.zeros_like(y).scatter(1, indices, values.sigmoid())


class Unmaterialised(Saving):
    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        return torch.tanh(SinCos.apply(y)[0]) + torch.tanh(SinCos.apply(y)[1])
