"""Networks whose training steps benchmarks/record_traces.py records, small enough for a CPU.

The structures are those of the papers; images and widths are smaller.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Task:
    model: nn.Module
    loss: Callable[[], Tensor]  # of one forward pass over the same made-up batch


def _classify(model: nn.Module, images: Tensor, labels: Tensor) -> Task:
    return Task(model, lambda: F.cross_entropy(model(images), labels))


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


# --- GPT-2: Radford et al. 2019 -------------------------------------------------------------------


class _GptLayer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.wide_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        heads = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) * (width // self.heads) ** -0.5
        ahead = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        weights = self.dropout(scores.masked_fill(ahead, float("-inf")).softmax(3))
        mixed = (weights @ value).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.dropout(self.out(mixed))
        return x + self.dropout(self.wide(self.wide_norm(x)))


class _Gpt(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, words: int, tokens: int) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.layers = nn.Sequential(*(_GptLayer(width, heads, 0.1) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = F.dropout(self.word(words) + self.place.weight, 0.1)
        return self.head(self.norm(self.layers(x)))


def gpt() -> Task:
    """12 layers, width 256, 8 heads; 4 texts of 192 tokens out of 2,048."""
    model = _Gpt(layers=12, width=256, heads=8, words=2048, tokens=192)
    text = torch.randint(0, 2048, (4, 193))
    return Task(
        model, lambda: F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    )


# --- ResNet-50: He et al. 2016 --------------------------------------------------------------------


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.path = nn.Sequential(
            _convolution(inputs, width, 1),
            _convolution(width, width, 3, stride),
            _convolution(width, outputs, 1)[:2],
        )
        self.shortcut = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = _convolution(inputs, outputs, 1, stride)[:2]

    def forward(self, x: Tensor) -> Tensor:
        return F.relu_(self.path(x) + self.shortcut(x))


def resnet50() -> Task:
    """Batch 4 of 128 x 128 pixels, 100 classes."""
    layers: list[nn.Module] = [_convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(_Bottleneck(inputs, 64 << stage, stride))
            inputs = 4 * 64 << stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 100)]
    images = torch.randn(4, 3, 128, 128)
    return _classify(nn.Sequential(*layers), images, torch.randint(0, 100, (4,)))


# --- DenseNet-121: Huang et al. 2017 --------------------------------------------------------------


def _normalised(inputs: int, outputs: int, size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False),
    )


class _DenseBlock(nn.Module):
    def __init__(self, inputs: int, layers: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                _normalised(inputs + i * growth, 4 * growth, 1),
                _normalised(4 * growth, growth, 3),
            )
            for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = [x]
        for layer in self.layers:
            parts.append(layer(torch.cat(parts, 1)))
        return torch.cat(parts, 1)


def densenet121() -> Task:
    """Growth 32, batch 4 of 128 x 128 pixels, 100 classes."""
    growth, channels = 32, 64
    layers: list[nn.Module] = [_convolution(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for block, count in enumerate((6, 12, 24, 16)):
        if block > 0:
            layers += [_normalised(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        layers.append(_DenseBlock(channels, count, growth))
        channels += count * growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)]
    layers += [nn.Flatten(), nn.Linear(channels, 100)]
    images = torch.randn(4, 3, 128, 128)
    return _classify(nn.Sequential(*layers), images, torch.randint(0, 100, (4,)))


# --- U-Net: Ronneberger et al. 2015 ---------------------------------------------------------------


class _UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]

        def twice(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                _convolution(inputs, outputs, 3), _convolution(outputs, outputs, 3)
            )

        self.down = nn.ModuleList(map(twice, [3, *widths[:-1]], widths))
        rising = widths[::-1]
        self.widen = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 2, 2) for a, b in zip(rising, rising[1:], strict=False)
        )
        self.up = nn.ModuleList(map(twice, rising[:-1], rising[1:]))
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        across = []
        for level in self.down[:-1]:
            x = level(x)
            across.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for widen, level in zip(self.widen, self.up, strict=True):
            x = level(torch.cat([across.pop(), widen(x)], 1))
        return self.out(x)


def unet() -> Task:
    """Four levels from 16 channels, batch 2 of 160 x 160 pixels, 2 classes."""
    images, labels = torch.randn(2, 3, 160, 160), torch.randint(0, 2, (2, 160, 160))
    return _classify(_UNet(width=16, depth=4), images, labels)


TASKS = {"gpt": gpt, "resnet50": resnet50, "densenet121": densenet121, "unet": unet}
