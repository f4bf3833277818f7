"""Blocks of other types, strides and sizes, part of precision_programs."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.stack import WIDTH


class CastsItself(nn.Module):
    """Leaves autocast for a part, as losses and normalisations of users do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        with torch.autocast("cpu", enabled=False):
            y = torch.tanh(y.float()) * self.norm.weight
        return self.linear(y) + y.half().sigmoid().to(y.dtype)


class Masks(nn.Module):
    """Comparisons and integers select, multiply, index and count."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.table = nn.Embedding(16, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(x))
        positive = y > 0
        levels = (y * 4).floor().to(torch.int8)
        small = (levels.abs() < 2) & ~(positive ^ (x > 0))
        y = y.masked_fill(small, 0.1) * positive
        y = torch.where(levels > 0, y.sin(), y.cos()) * levels.to(torch.int32)
        y = y + (y * small.to(torch.uint8)).exp() * (levels.sum(1, keepdim=True) % 5)
        buckets = positive.sum(1) % 16
        y[buckets == 3] = 0
        chosen = y.gather(1, levels.long().abs())
        counted = torch.bincount(buckets, minlength=16).clamp(min=1)
        return F.gelu(chosen + y.sigmoid()) * self.table(buckets) / counted[buckets, None]


class Strides(nn.Module):
    """Every saved tensor is transposed, sliced or has gaps."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x.t().contiguous().t()).t()
        y = torch.tanh(y).mul(x.t())
        left, right = y[::2].sin(), y[1::2].exp()
        wide = torch.empty(len(y), y.shape[1] + 5).t()[:-5].t()
        wide[::2] = left
        wide[1::2] = right
        wide = wide.sigmoid() * wide
        cubes = wide.view(8, -1, wide.shape[1]).permute(2, 0, 1)
        soft = cubes.softmax(1) * cubes.flip(2)[:, torch.arange(7, -1, -1)]
        return F.gelu(soft.transpose(0, 1).reshape(8, len(x), -1).permute(1, 0, 2).flatten(1))


class Expands(nn.Module):
    """Saves tensors whose strides are zero, and writes where nothing is expanded."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(x))
        row, column = y.mean(0, keepdim=True), y.mean(1, keepdim=True)
        outer = row.expand_as(y) * column.expand(-1, WIDTH)
        y = y * outer.exp() + torch.ones(()).expand_as(y) * y.sin()
        several = (column * 2).unsqueeze(0).expand(2, -1, WIDTH)
        products = torch.bmm(several.sin()[:, :, :16], y[:16].expand(2, -1, -1))
        repeated = torch.broadcast_to(row.sigmoid(), y.shape).contiguous()
        return products.prod(0) * repeated.add_(column) + row.repeat(len(y), 1).square()


class HasNothing(nn.Module):
    """Some of its tensors have no elements: an expert that no row goes to, an empty split."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.norm(x))
        route = torch.arange(len(y)) % 2  # nobody goes to the third
        result = torch.zeros_like(y)
        for index, expert in enumerate(self.experts):
            rows = (route == index).nonzero().squeeze(1)
            result = result.index_add(0, rows, torch.tanh(expert(y[rows])).square())
        nothing, everything = result.split([0, len(result)])
        nothing = (nothing.sin() * nothing.exp()).sum()
        wide = torch.cat((everything, everything[:, :0].sigmoid(), everything.cos()), dim=1)
        return wide[:, :WIDTH] * wide[:, WIDTH:] + nothing + (y[:0] @ y.t()).sum()


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(32, 32, 3, padding=1)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.norm, self.group_norm = nn.BatchNorm2d(32), nn.GroupNorm(4, 32)
        self.attention = nn.Conv2d(32, 32, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.norm(self.convolution(x)))
        y = F.max_pool2d(F.interpolate(y, scale_factor=2.0, mode="bilinear"), 2)
        y = F.hardswish(self.group_norm(self.depthwise(y)))
        return x + y * torch.sigmoid(self.attention(F.adaptive_avg_pool2d(y, 1)))
