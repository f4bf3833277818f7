"""PyTorch's own means against memory. What the user chose to recompute or to move stays so; what
lies outside is planned."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

from zoo import Program, Training, supervised
from zoo.stack import WIDTH, Stack, batch, classified

Wrap = Callable[[nn.Module, Tensor], Tensor]


class Dropping(nn.Module):
    """Draws, so that a recomputation has to draw the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(torch.tanh(F.gelu(self.linear(self.norm(x)))))


class Wrapping(Stack):
    """Every second block runs under `wrap`."""

    def __init__(self, wrap: Wrap) -> None:
        super().__init__(Dropping, blocks=6)
        self.wrap = wrap

    def features(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            x = x + (self.wrap(block, x) if index % 2 else block(x))
        return x


def wrapped(wrap: Wrap, **options: Any) -> Program:
    return Program(lambda: classified(Wrapping(wrap)), **options)


def hooked(context: Callable[[], AbstractContextManager]) -> Program:
    """What half of the blocks save is the user's: held by hooks, never given up for them."""
    return wrapped(under(context), fraction=0.2)


def checkpointed(**options: Any) -> Program:
    return wrapped(partial(checkpoint, **options))


def sequence(model: Stack, reentrant: bool, x: Tensor) -> Tensor:
    return checkpoint_sequential(list(model.blocks), 2, x, use_reentrant=reentrant)


def in_sequence(reentrant: bool) -> Training:
    """A segment that PyTorch runs again in backward is whole in memory: no large budget cut."""
    model = Stack(Dropping, blocks=6)

    def loss(_: int) -> Tensor:
        x, labels = batch()
        x = torch.tanh(model.blocks[0](x)).sin().exp()
        return F.cross_entropy(model.head(F.gelu(sequence(model, reentrant, x)).sin()), labels)

    return supervised(model, loss)


def nested(block: nn.Module, x: Tensor) -> Tensor:
    def inner(y: Tensor) -> Tensor:
        return torch.sin(checkpoint(block, y, use_reentrant=False))

    return checkpoint(inner, x, use_reentrant=False)


def whole_pass(block: nn.Module, x: Tensor) -> Tensor:
    with set_checkpoint_early_stop(False):
        return checkpoint(block, x, use_reentrant=False, determinism_check="default")


def keep_products(context: Any, op: Any, *arguments: Any, **options: Any) -> CheckpointPolicy:
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    kept = op in products
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def selective(block: nn.Module, x: Tensor) -> Tensor:
    contexts = partial(create_selective_checkpoint_contexts, keep_products)
    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


def selective_list(block: nn.Module, x: Tensor) -> Tensor:
    """By the list of what is saved, norms and dropout among them."""
    saved = [torch.ops.aten.native_layer_norm.default, torch.ops.aten.native_dropout.default]
    contexts = partial(create_selective_checkpoint_contexts, saved)
    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


def under(context: Callable[[], AbstractContextManager]) -> Wrap:
    def wrap(block: nn.Module, x: Tensor) -> Tensor:
        with context():
            return block(x)

    return wrap


def rounding() -> AbstractContextManager:
    """Saved tensors are kept in half the bytes: other gradients, on purpose."""

    def pack(tensor: Tensor) -> tuple[torch.dtype, Tensor]:
        return tensor.dtype, tensor.bfloat16() if tensor.is_floating_point() else tensor

    return saved_tensors_hooks(pack, lambda packed: packed[1].to(packed[0]))


def through_numpy() -> AbstractContextManager:
    """Saved tensors leave torch's memory."""
    return saved_tensors_hooks(
        lambda tensor: tensor.detach().numpy().copy(), lambda array: torch.from_numpy(array)
    )


def identity() -> AbstractContextManager:
    """The user's hook keeps the tensor as it is: it is the user's then."""
    return saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def stacked_hooks() -> AbstractContextManager:
    """Two pairs: the inner one packs first."""

    class Both(AbstractContextManager):
        def __enter__(self) -> None:
            self.outer, self.inner = save_on_cpu(), rounding()
            self.outer.__enter__()
            self.inner.__enter__()

        def __exit__(self, *raised: Any) -> None:
            self.inner.__exit__(*raised)
            self.outer.__exit__(*raised)

    return Both()


def forbidden() -> AbstractContextManager:
    return disable_saved_tensors_hooks("no hooks in this block")


class Overwriting(Dropping):
    """Writes to what backward needs; the mode clones it first."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.sigmoid(super().forward(x))
        z = y.sin() * y
        y.add_(1)
        return z * y


def allows_mutation() -> Training:
    model = Stack(Dropping, blocks=6)
    model.blocks[1], model.blocks[4] = Overwriting(), Overwriting()
    training = classified(model)

    def step(index: int):
        with allow_mutation_on_saved_tensors():
            return training.step(index)

    return Training(step, [model])


PROGRAMS = {
    "checkpoint": checkpointed(use_reentrant=False),
    "checkpoint_reentrant": checkpointed(use_reentrant=True),
    "checkpoint_other_numbers": checkpointed(use_reentrant=False, preserve_rng_state=False),
    "checkpoint_reentrant_other_numbers": checkpointed(
        use_reentrant=True, preserve_rng_state=False
    ),
    "checkpoint_nested": wrapped(nested),
    "checkpoint_to_its_end": wrapped(whole_pass),
    "checkpoint_sequential": Program(lambda: in_sequence(False), fraction=0.25),
    "checkpoint_sequential_reentrant": Program(lambda: in_sequence(True), fraction=0.25),
    "selective_checkpoint": wrapped(selective, fraction=0.3),
    "selective_checkpoint_list": wrapped(selective_list, fraction=0.3),
    "save_on_cpu": hooked(save_on_cpu),
    "saved_tensors_hooks_rounding": hooked(rounding),
    "saved_tensors_hooks_numpy": hooked(through_numpy),
    "saved_tensors_hooks_identity": hooked(identity),
    "saved_tensors_hooks_stacked": hooked(stacked_hooks),
    "saved_tensors_hooks_disabled": hooked(forbidden),
    "allow_mutation": Program(
        allows_mutation, fraction=-0.2, kept="all of it runs under a dispatch mode"
    ),
}
