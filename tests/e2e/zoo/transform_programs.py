"""Compilers and function transforms: what they run is theirs, the eager rest is planned."""

import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, stack_module_state, vjp, vmap

from zoo import Program, Training, supervised
from zoo.residual_net import CLASSES, DEPTH, ROWS, WIDTH, Block, batch, loss_of, network

# The runs of one test share what was compiled: their folders are neighbours.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path.cwd().parent / "compiled"))

# --- torch.compile --------------------------------------------------------------------------------


def compiled(backend: str = "inductor") -> Training:
    """Model and loss in one graph."""
    model = network()
    run = torch.compile(lambda x, y: F.cross_entropy(model(x), y), backend=backend, fullgraph=True)
    return supervised(model, lambda _: run(*batch()))


def compiled_in_part() -> Training:
    """Every third block; the others and the loss are eager."""
    model = network()
    for index in range(0, DEPTH, 3):
        model[index].compile(backend="inductor")
    return supervised(model, lambda _: loss_of(model))


class Branching(nn.Module):
    """Branches on a number of each batch, which no graph can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
            if x.sum().item() > 0:
                x = x.sin()
        return self.head(x)


def compiled_with_breaks() -> Training:
    """The blocks between the breaks are graphs, and a part stays eager by the user's wish."""
    model = Branching()
    for index in (1, 4):
        model.blocks[index].forward = torch.compiler.disable(model.blocks[index].forward)
    run = torch.compile(model, backend="aot_eager")
    return supervised(model, lambda _: loss_of(run))


def compiled_shapes() -> Training:
    """Sizes change: compiled anew, then with symbols for them."""
    model = network()
    run = torch.compile(model, backend="aot_eager")
    return supervised(model, lambda step: loss_of(run, ROWS - 64 * (step % 3)))


# --- torch.func -----------------------------------------------------------------------------------


def functional_gradient() -> Training:
    """grad of a functional_call, and plain descent on what it gives: no graph of the program's."""
    model = network()
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, values, x), y)

    def step(_: int) -> list[Tensor]:
        gradients = grad(loss)(parameters, *batch())
        for name, value in parameters.items():
            value -= 0.01 * gradients[name]
        return list(gradients.values())

    return Training(step, [model])


def example_norms() -> Training:
    """Norms of every example's gradient, by vmap of grad, weigh the examples of an eager loss."""
    model = network()

    def example_loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, values, x[None]), y[None])

    def loss(_: int) -> Tensor:
        x, y = batch()
        values = {name: parameter.detach() for name, parameter in model.named_parameters()}
        gradients = vmap(grad(example_loss), in_dims=(None, 0, 0), randomness="different")(
            values, x[:8], y[:8]
        )
        norms = sum(gradient.flatten(1).pow(2).sum(1) for gradient in gradients.values())
        weights = torch.cat([norms.rsqrt(), torch.ones(ROWS - 8)])
        return (F.cross_entropy(model(x), y, reduction="none") * weights).mean()

    return supervised(model, loss)


def directional_penalty() -> Training:
    """Forward over reverse: a penalty on the slope along a random direction, by jvp."""
    model = network(2)

    def loss(_: int) -> Tensor:
        x, y = batch()
        output, slope = jvp(model, (x,), (torch.randn_like(x),))
        return F.cross_entropy(output, y) + 0.1 * slope.pow(2).mean()

    return supervised(model, loss)


def vjp_penalty() -> Training:
    """Reverse mode by vjp inside of the graph that is run backward."""
    model = network(3)

    def loss(_: int) -> Tensor:
        x, y = batch()
        output, pull = vjp(model, x)
        return F.cross_entropy(output, y) + pull(torch.ones_like(output))[0].pow(2).mean()

    return supervised(model, loss)


def functional_calls() -> Training:
    """Weights that are computed from others, as a hypernetwork or weight standardisation does."""
    model = network()

    def loss(_: int) -> Tensor:
        x, y = batch()
        values = {
            name: value * torch.rsqrt(value.pow(2).mean() + 1) if value.dim() == 2 else value
            for name, value in model.named_parameters()
        }
        return F.cross_entropy(functional_call(model, values, (x,)), y)

    return supervised(model, loss)


class Ensemble(nn.Module):
    """Three networks as one, by vmap over their stacked parameters, on what an eager stem gives."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = network(DEPTH)[:-1]
        members = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))
            for _ in range(3)
        ]
        stacked, _ = stack_module_state(members)
        self.names = list(stacked)
        self.stacked = nn.ParameterList(stacked.values())
        self.member = [members[0]]  # its structure alone: no part of the module

    def forward(self, x: Tensor) -> Tensor:
        values = dict(zip(self.names, self.stacked, strict=True))
        return vmap(lambda one, y: functional_call(self.member[0], one, y), in_dims=(0, None))(
            values, self.stem(x)
        ).mean(0)


def ensemble() -> Training:
    model = Ensemble()
    return supervised(model, lambda _: loss_of(model))


# --- TorchScript and FX ---------------------------------------------------------------------------


def rewritten(rewrite: Callable[[nn.Module], nn.Module]) -> Training:
    model = rewrite(network())
    return supervised(model, lambda _: loss_of(model))


def traced(model: nn.Module) -> nn.Module:
    """Its dropout stays: traced in training."""
    return torch.jit.trace(model, batch()[0], check_trace=False)


def symbolically_traced(model: nn.Module) -> nn.Module:
    """Every gelu becomes a silu."""
    module = torch.fx.symbolic_trace(model)
    for node in module.graph.nodes:
        if node.target is F.gelu:
            node.target = F.silu
    module.recompile()
    return module


# The backward pass of a compiled graph has all that it saved at once; budgets above the plain peak.
WHOLE = "compiled as a whole: saves what its graph says"
JIT = "from its second run on TorchScript differentiates its own graph"

PROGRAMS = {
    "compiled": Program(compiled, fraction=-0.4, kept=WHOLE),
    "compiled_aot_eager": Program(lambda: compiled("aot_eager"), fraction=-0.4, kept=WHOLE),
    "compiled_in_part": Program(compiled_in_part),
    "compiled_with_breaks": Program(compiled_with_breaks, fraction=0.2),
    "compiled_shapes": Program(compiled_shapes, steps=12, fraction=-0.4, kept=WHOLE),
    "functional_gradient": Program(
        functional_gradient, fraction=-1.0, kept="under torch.func: no step is seen"
    ),
    "example_norms": Program(example_norms),
    "directional_penalty": Program(directional_penalty),
    "vjp_penalty": Program(vjp_penalty, fraction=-0.4, kept="saved under torch.func"),
    "functional_calls": Program(functional_calls),
    "ensemble": Program(ensemble),
    "scripted": Program(lambda: rewritten(torch.jit.script), fraction=-0.4, kept=JIT),
    "traced": Program(lambda: rewritten(traced), fraction=-0.4, kept=JIT),
    "symbolically_traced": Program(lambda: rewritten(symbolically_traced)),
}
