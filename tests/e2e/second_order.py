"""Programs whose backward pass saves tensors: it is differentiated, or it computes again.

Each writes its losses and a sum of its parameters' bits.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WIDTH, ROWS = 128, 2048  # 1 MiB a saved tensor


def perceptron(inputs: int, layers: int = 4, outputs: int = 1) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(inputs, WIDTH), nn.Tanh())
    for _ in range(layers - 1):
        net.extend([nn.Linear(WIDTH, WIDTH), nn.Tanh()])
    return net.append(nn.Linear(WIDTH, outputs))


def physics(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    """A physics-informed net: two derivatives, then the backward pass of the residual."""
    net = perceptron(2)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    points = torch.rand(ROWS, 2)
    for _ in range(steps):
        optimizer.zero_grad()
        x = points.clone().requires_grad_()
        u = net(x)
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first[:, :1].sum(), x, create_graph=True)
        loss = (first[:, 1:] + u * first[:, :1] - 0.01 * second[:, :1]).pow(2).mean()
        loss.backward()
        optimizer.step()
        yield net, loss


def physics_by_lbfgs(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    net = perceptron(2)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3, history_size=4)
    points = torch.rand(ROWS, 2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        x = points.clone().requires_grad_()
        (first,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = (first[:, 1:] + 0.5 * first[:, :1]).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(steps):
        yield net, optimizer.step(closure)


def penalty(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    """A critic with a gradient penalty on points between real and made ones (WGAN-GP)."""
    net = nn.Sequential(
        *[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU()) for _ in range(4)],
        nn.Linear(WIDTH, 1),
    )
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(steps):
        real, made = torch.randn(ROWS, WIDTH), torch.rand(ROWS, WIDTH)
        between = torch.lerp(real, made, torch.rand(ROWS, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(net(between).sum(), between, create_graph=True)
        loss = net(made).mean() - net(real).mean() + (slope.norm(dim=1) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield net, loss


def meta(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    """Two inner steps, which the outer one is differentiated through (MAML)."""
    net = perceptron(8, outputs=4)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    names = [name for name, _ in net.named_parameters()]
    for _ in range(steps):
        weights = dict(net.named_parameters())
        for _ in range(2):
            x, y = torch.randn(ROWS, 8), torch.randn(ROWS, 4)
            inner = F.mse_loss(torch.func.functional_call(net, weights, (x,)), y)
            slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            weights = {n: weights[n] - 0.1 * g for n, g in zip(names, slopes, strict=True)}
        x, y = torch.randn(ROWS, 8), torch.randn(ROWS, 4)
        loss = F.mse_loss(torch.func.functional_call(net, weights, (x,)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield net, loss


def curvature(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    """Gradients that keep their graph, and a product with the Hessian (AdaHessian)."""
    net = perceptron(8, outputs=4)
    weights = list(net.parameters())
    for _ in range(steps):
        x, y = torch.randn(ROWS, 8), torch.randn(ROWS, 4)
        loss = F.mse_loss(net(x), y)
        loss.backward(create_graph=True)
        slopes = [weight.grad for weight in weights]
        signs = [torch.randint_like(weight, 2) * 2 - 1 for weight in weights]
        products = torch.autograd.grad(slopes, weights, grad_outputs=signs)
        with torch.no_grad():
            for weight, product, sign in zip(weights, products, signs, strict=True):
                weight -= 0.01 * weight.grad / (1 + (product * sign).abs())
                weight.grad = None
        yield net, loss


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.dropout(self.down(F.gelu(self.up(self.norm(x)))), 0.1)


def reentrant(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    """A model inside one checkpoint of old: one node computes all again, by passes of its own."""
    net = nn.Sequential(*[Block() for _ in range(4)], nn.Linear(WIDTH, 10))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def half(x: Tensor, first: int) -> Tensor:
        return net[first + 1](net[first](x))

    def whole(x: Tensor) -> Tensor:
        return half(checkpoint(half, x, 0, use_reentrant=True), 2)

    for _ in range(steps):
        x = torch.randn(ROWS, WIDTH, requires_grad=True)
        x = checkpoint(whole, x, use_reentrant=True)
        loss = F.cross_entropy(net[-1](x), torch.randint(0, 10, (ROWS,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield net, loss


def hooked(
    steps: int, before: Callable[[Tensor], None] | None = None
) -> Iterator[tuple[nn.Module, Tensor]]:
    """A hook saves the gradient, which the program changes before it uses the hook's graph.
    `before`: a hook of the node before that one."""
    net = nn.Linear(512, 512)
    rows, kept = torch.randn(ROWS, 512), []

    def save(gradient: Tensor) -> None:
        with torch.enable_grad():
            kept.append((gradient * net.weight).sum())

    if before is not None:
        net.bias.register_hook(before)
    net.weight.register_hook(save)
    for _ in range(steps):
        net.zero_grad()
        loss = net(rows).tanh().sum()
        loss.backward()
        net.weight.grad.data.mul_(0.5)
        net.zero_grad()
        kept.pop().backward()
        with torch.no_grad():
            net.weight -= 1e-4 * net.weight.grad
        kept.clear()
        yield net, loss


def leave_gradients_on(gradient: Tensor) -> None:
    torch.set_grad_enabled(True)


def hooked_in_another_mode(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    return hooked(steps, leave_gradients_on)


class Viewing(nn.Module):
    """Its first operation saves a part of what the checkpoint was given."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x.view(-1, WIDTH)))).view_as(x)


def reentrant_views(steps: int) -> Iterator[tuple[nn.Module, Tensor]]:
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), *[Viewing() for _ in range(6)])
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(steps):
        x = net[0](torch.randn(16, ROWS // 16, WIDTH))
        for block in net[1:]:
            x = x + checkpoint(block, F.relu(x), use_reentrant=True)
        loss = x.pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield net, loss


Programs = dict[str, Callable[[int], Iterator[tuple[nn.Module, Tensor]]]]

PROGRAMS: Programs = {
    "physics": physics,
    "physics_by_lbfgs": physics_by_lbfgs,
    "penalty": penalty,
    "meta": meta,
    "curvature": curvature,
    "reentrant": reentrant,
    "reentrant_views": reentrant_views,
    "hooked": hooked,
    "hooked_in_another_mode": hooked_in_another_mode,
}


def main(programs: Programs) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=programs)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    losses, net = [], nn.Module()
    for trained, loss in programs[options.program](options.steps):
        losses.append(loss.item().hex())
        net = trained
    sums = hashlib.sha256()
    for parameter in net.parameters():
        sums.update(parameter.detach().numpy().tobytes())
    Path(options.out).write_text(json.dumps({"losses": losses, "parameters": sums.hexdigest()}))


if __name__ == "__main__":
    main(PROGRAMS)
