"""Steps that are more than a forward and a backward pass in float32, or whose ops do not repeat, in
scripts for a GPU that know nothing of Ebbtide, each in a process of its own.

python step_programs.py NAME --out FILE    as training_programs.py
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_programs import ROWS, WIDTH, Mlp, main, numbers, rows, square, train


def float16_scaled() -> dict:
    scaler = torch.amp.GradScaler("cuda")

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss

    return train(Mlp(), rows, square, step=step)


def fused_adamw() -> dict:
    def optimizer(parameters: Iterator[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True)

    return train(Mlp(0.1), rows, square, optimizer=optimizer)


def accumulating() -> dict:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        for part in x.chunk(2):
            loss = square(model, part)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def sgd(parameters: Iterator[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    return train(Mlp(0.1), rows, square, step=step, optimizer=sgd)


def flash_without_dropout() -> dict:
    """Outputs that a kernel leaves unwritten, and gradients that it adds in no order."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def loss(net: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return net(x).float().square().mean()

    def texts(step: int) -> Tensor:
        return torch.randn(16, 128, 128, generator=numbers(step))

    return train(model, texts, loss)


class NoOrder(nn.Module):
    """Sums whose order a GPU does not keep, each within a block that is dropped else."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Mlp(0.1)
        self.register_buffer("targets", torch.arange(ROWS) % 64)

    def forward(self, x: Tensor) -> Tensor:
        x = self.net(x)
        sums = x.new_zeros(64, WIDTH).index_add(0, self.targets, x)
        rows_of = self.targets[:, None].expand(-1, WIDTH)
        more = x.new_zeros(64, WIDTH).scatter_add(0, rows_of, F.gelu(x))
        return F.gelu(x.cumsum(dim=1) / WIDTH) + (sums + more)[self.targets] / ROWS


def adding_in_no_order() -> dict:
    return train(NoOrder(), rows, square)


def every_kind_of_draw() -> dict:
    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Mlp(0.1)
            self.masks = nn.Sequential(
                nn.RReLU(), nn.AlphaDropout(0.1), nn.FeatureAlphaDropout(0.1)
            )

        def forward(self, x: Tensor) -> Tensor:
            x = self.masks(self.net(x)) + 0.1 * torch.randn_like(x)
            x = x * torch.bernoulli(torch.full_like(x, 0.9)) + torch.rand_like(x)
            order = torch.randperm(len(x), device=x.device)
            return F.gumbel_softmax(x[order], dim=1) * x

    return train(Draws(), rows, square)


class Squashed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def other_results_in_backward(since: int = 0) -> dict:
    """From that step on tanh gives other results where it runs in a backward pass: run again."""
    now = 0

    def tanh(x: Tensor) -> Tensor:
        y = 2 * torch.sigmoid(2 * x) - 1
        again = torch._C._current_graph_task_id() >= 0 and now >= since
        return y + 1e-3 if again else y

    def batch(step: int) -> Tensor:
        nonlocal now
        now = step
        return rows(step)

    torch.ones(1, device="cuda").tanh()  # an emulated GPU's own comes first
    library = torch.library.Library("aten", "IMPL")
    library.impl("tanh", tanh, "CUDA")
    return train(Squashed(), batch, square)


def other_results_in_a_late_backward() -> dict:
    return other_results_in_backward(since=9)


PROGRAMS: dict[str, Callable[[], dict]] = {
    f.__name__: f
    for f in (
        float16_scaled,
        fused_adamw,
        accumulating,
        flash_without_dropout,
        adding_in_no_order,
        every_kind_of_draw,
        other_results_in_backward,
        other_results_in_a_late_backward,
    )
}

if __name__ == "__main__":
    main(PROGRAMS, __doc__)
