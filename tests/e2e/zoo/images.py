"""Networks from image to image: a U-Net, and one with attention that is told the time."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Convolutions(nn.Sequential):
    """Twice a convolution, BatchNorm and ReLU."""

    def __init__(self, before: int, after: int) -> None:
        layers: list[nn.Module] = []
        for width in (before, after):
            layers += [nn.Conv2d(width, after, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, channels: int, classes: int, width: int, depth: int = 4) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth)]
        self.first = Convolutions(channels, width)
        self.down = nn.ModuleList(
            Convolutions(before, after) for before, after in zip(widths, widths[1:], strict=False)
        )
        widths.reverse()
        pairs = list(zip(widths, widths[1:], strict=False))
        self.larger = nn.ModuleList(nn.ConvTranspose2d(wide, less, 2, 2) for wide, less in pairs)
        self.up = nn.ModuleList(Convolutions(wide, less) for wide, less in pairs)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for larger, up in zip(self.larger, self.up, strict=True):
            x = up(torch.cat([levels.pop(), larger(x)], 1))
        return self.head(x)


class Residual(nn.Module):
    """Two convolutions that are shifted by what time it is."""

    def __init__(self, before: int, after: int, times: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for width in (before, after))
        self.first = nn.Conv2d(before, after, 3, padding=1)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(times, after)
        self.dropout = nn.Dropout(0.1)
        self.beside = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        y = self.second(self.dropout(F.silu(self.norms[1](y))))
        return self.beside(x) + y


class Attention(nn.Module):
    """Each pixel looks at all others."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        seen, _ = self.attention(pixels, pixels, pixels, need_weights=False)
        return x + seen.transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    """The U-Net of diffusion models: three levels, two residual blocks and attention in each."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.width, times = width, 4 * width
        self.time = nn.Sequential(nn.Linear(width, times), nn.SiLU(), nn.Linear(times, times))
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        widths = [width]
        for level, wide in enumerate((width, 2 * width, 2 * width)):
            for _ in range(2):
                self.down.append(Residual(widths[-1], wide, times))
                self.down.append(Attention(wide) if level else nn.Identity())
                widths.append(wide)
            self.down.append(nn.Conv2d(wide, wide, 3, 1 if level == 2 else 2, 1))
        self.middle = Residual(widths[-1], widths[-1], times)
        wide = widths[-1]
        for level, less in reversed(list(enumerate((width, 2 * width, 2 * width)))):
            for _ in range(2):
                self.up.append(Residual(wide + widths.pop(), less, times))
                self.up.append(Attention(less) if level else nn.Identity())
                wide = less
            self.up.append(nn.Upsample(scale_factor=2) if level else nn.Identity())
        self.head = nn.Sequential(
            nn.GroupNorm(8, wide), nn.SiLU(), nn.Conv2d(wide, channels, 3, padding=1)
        )

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half) / half)
        angles = times[:, None] * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x = self.first(x)
        saved = []
        for layer in self.down:
            if isinstance(layer, Residual):
                x = layer(x, time)
                continue
            x = layer(x)
            if isinstance(layer, (Attention, nn.Identity)):
                saved.append(x)
        x = self.middle(x, time)
        for layer in self.up:
            if isinstance(layer, Residual):
                x = layer(torch.cat([x, saved.pop()], 1), time)
            else:
                x = layer(x)
        return self.head(x)
