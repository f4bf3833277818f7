"""Numbers that are not contiguous 32-bit floats."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training, supervised
from zoo.layout_blocks import CastsItself, ChannelsLast, Expands, HasNothing, Masks, Strides
from zoo.sparse_programs import PROGRAMS as SPARSE
from zoo.stack import WIDTH, Stack, batch, momentum, stacked


def autocasts(dtype: torch.dtype, cached: bool = True) -> Training:
    model = Stack(CastsItself, blocks=3)

    def loss(_: int) -> Tensor:
        x, labels = batch()
        with torch.autocast("cpu", dtype, cache_enabled=cached):
            return F.cross_entropy(model(x), labels)

    return supervised(model, loss)


def scales_gradients() -> Training:
    """Some steps overflow: the scaler leaves them out and halves its scale."""
    model = Stack()
    optimizer = momentum(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=3)

    def step(_: int) -> list[Tensor | float]:
        x, labels = batch()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return [loss, norm, scaler.get_scale()]

    return Training(step, [model])


def in_precision(dtype: torch.dtype, blocks: int = 4) -> Callable[[], Training]:
    """Parameters and activations of this type."""

    def make() -> Training:
        model = Stack(blocks=blocks).to(dtype)

        def loss(_: int) -> Tensor:
            x, labels = batch()
            return F.cross_entropy(model(x.to(dtype)).float(), labels)

        return supervised(model, loss)

    return make


class ComplexBlock(nn.Module):
    """A Fourier layer: complex weights, conjugates, magnitudes and phases."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        half = WIDTH // 2 + 1
        self.weight = nn.Parameter(torch.randn(half, half, dtype=torch.complex64) / half)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(F.gelu(self.norm(x)), norm="ortho")
        mixed = spectrum @ self.weight
        bounded = mixed * torch.rsqrt(1 + mixed.abs().square())
        turned = torch.polar(bounded.abs() + 0.1, bounded.angle()) * bounded.conj()
        squared = (turned.mH.mT * turned).real + torch.view_as_real(turned).sum(-1)
        back = torch.fft.irfft(turned.conj() + spectrum.imag.tanh(), n=WIDTH, norm="ortho")
        return back + F.pad(squared, (0, WIDTH - squared.shape[1])).tanh()


class ComplexInPlace(nn.Module):
    """Writes through conjugated and negated views what another saved tensor was made of."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(self.norm(x)))
        z = torch.complex(y[:, ::2], y[:, 1::2]) * 2
        before = (z + 1).sin()
        z.conj().add_(0.5j)
        between = (z + 1).cos()
        z.conj().imag.mul_(0.5)
        z.imag.add_(0.1)
        after = (z * (0.5 - 0.5j)).tanh()
        product = before * between.conj() * after
        return torch.view_as_real(product / (1 + product.abs())).flatten(1)


def images(block: Callable[[], nn.Module], like: torch.memory_format) -> Callable[[], Training]:
    """Images of 32 channels; an activation is 2 MiB."""

    def make() -> Training:
        model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *(block() for _ in range(3)))
        model = model.to(memory_format=like)

        def loss(_: int) -> Tensor:
            x = torch.randn(16, 3, 32, 32).contiguous(memory_format=like)
            return model(x).square().mean()

        return supervised(model, loss)

    return make


PROGRAMS = {
    "autocast_bf16": Program(lambda: autocasts(torch.bfloat16)),
    "autocast_fp16": Program(lambda: autocasts(torch.float16)),
    "autocast_without_cache": Program(lambda: autocasts(torch.bfloat16, cached=False)),
    "grad_scaler": Program(scales_gradients),
    "bf16_parameters": Program(in_precision(torch.bfloat16, blocks=6)),
    "fp16_parameters": Program(in_precision(torch.float16)),
    "fp64_parameters": Program(in_precision(torch.float64)),
    "complex": Program(stacked(ComplexBlock)),
    "complex_in_place": Program(stacked(ComplexInPlace)),
    "masks": Program(stacked(Masks)),
    "channels_last": Program(images(ChannelsLast, torch.channels_last)),
    "non_contiguous": Program(stacked(Strides)),
    "expanded": Program(stacked(Expands)),
    "zero_size": Program(stacked(HasNothing)),
    **SPARSE,
}
