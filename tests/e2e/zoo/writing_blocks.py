"""Blocks that write in place and read through views of every kind."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.stack import WIDTH


class Writing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))


class WritesElements(Writing):
    """Each write saves what it needs of the contents before or after it."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu_(self.linear(x))
        y = (y * self.scale).add_(x, alpha=0.5).tanh_()
        y = (y * y).mul_(self.scale).clamp_(-2, 2).sin_()
        y = F.elu(F.hardtanh(y, max_val=0.9, inplace=True), inplace=True)
        y = F.silu(y + x, inplace=True)
        y = F.leaky_relu_(y.addcmul_(x, x.cos(), value=0.1), 0.1)
        y = (y.exp() * 0.5).lerp_(x, 0.5).sigmoid_()
        y = torch.sqrt_(y + 0.1) - 0.5
        return y.div_(1 + self.scale**2).pow_(2)


class WritesElementsElsewhere(Writing):
    """By index, by mask, into part of a tensor, from another one."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        z = torch.sigmoid(y)
        y = y.masked_fill_(z > 0.7, 0.0).index_fill_(1, torch.tensor([3]), 0.5)
        y[z < 0.2] = -0.1
        y[::7] = 0.25
        y[:, 5] *= 2
        y.index_add_(0, torch.arange(0, len(y), 3), x[::3])
        y.scatter_(1, torch.zeros(len(y), 1, dtype=torch.long), 0.5)
        y.scatter_add_(1, z.argmax(1, keepdim=True), z[:, :1])
        y.index_put_((torch.arange(8), torch.arange(8)), self.scale[:8], accumulate=True)
        y.masked_scatter_(z > 0.99, z)
        copied = torch.empty_like(y).copy_(y).mul_(z)
        filled = torch.zeros_like(y)
        filled[:, : WIDTH // 2] = copied[:, WIDTH // 2 :]
        filled.narrow(1, WIDTH // 2, WIDTH // 2).copy_(copied[:, : WIDTH // 2].tanh())
        return F.gelu(filled) * self.scale


class ReadsViews(Writing):
    """Every reader saves a view."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(x))
        first, second = y.chunk(2, dim=1)
        third, fourth = (first * second).split([WIDTH // 4, WIDTH // 4], dim=1)
        heads = y.view(-1, 8, WIDTH // 8)
        scores = (heads @ heads.transpose(1, 2)).softmax(-1)
        mixed = (scores @ heads).permute(2, 0, 1).movedim(0, -1).reshape(y.shape)
        even, odd = y.unflatten(1, (-1, 2)).unbind(-1)
        pairs = torch.stack((even * odd, even.sin()), dim=-1).flatten(1)
        windows = y.unfold(1, 2, 2).prod(-1)
        strided = y.as_strided((len(y), WIDTH // 2), (WIDTH, 2), 1).exp()
        rows = y[:1].expand_as(y) * y.flip(0)[:, torch.arange(WIDTH - 1, -1, -1)]
        column = y.select(1, 3).unsqueeze(1).square() * y.T.T[..., None].squeeze(-1)
        diagonal = y[:WIDTH].diagonal().pow(3)
        complex_ = torch.view_as_complex(y.view(len(y), -1, 2)).abs()
        wide = torch.cat((third * fourth, third, windows[:, : WIDTH // 4]), dim=1)
        wide = torch.cat((wide, (strided * complex_)[:, : WIDTH // 4]), dim=1)
        return wide * diagonal + mixed + pairs.roll(1, 1) + rows + column.swapdims(0, 1).mT


class WritesThroughViews(Writing):
    """The gradient of each write has to find its part of the base."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(x)).clone()
        y[:, ::2].mul_(self.scale[::2])
        y.t()[3:5].add_(1)
        y.view(-1, 8, WIDTH // 8).select(1, 2).cos_()
        y.narrow(0, 10, 100).transpose(0, 1)[:20].zero_()
        part = y[:, 16:64]
        view_of_part = part.view(len(y), 6, 8)[:, 1:3]
        y.mul_(0.9)  # the base, after the views were made
        view_of_part.sin_()
        part.add_(x[:, :48])
        y.unfold(1, 4, 4).select(-1, 0).copy_(x[:, : WIDTH // 4])
        y[:WIDTH].diagonal().fill_(0.5)
        z = y.sin()
        z = z.unsqueeze_(0).transpose_(1, 2).squeeze_(0)
        with torch.no_grad():
            z[:4].clamp_(min=0)
        z.data[:, 0] += 1
        return (z.t() * y).cos_() * self.scale


class WritesParameters(nn.Module):
    """A lookup that first shortens the rows that it reads, and a weight kept positive."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, WIDTH, max_norm=1.0)
        self.positive = nn.Parameter(torch.rand(WIDTH))
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(x))
        with torch.no_grad():
            self.positive.clamp_(min=0.1)
        return F.gelu(self.table(y[:, :16].argmax(1)).sin() * y) * self.positive.sqrt()
