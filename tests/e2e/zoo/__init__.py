"""The zoo: training programs as people write them, none of which knows of Ebbtide.

A family is a module here with a table PROGRAMS. zoo_train.py runs them, test_zoo.py compares
what they computed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module

import torch
from torch import Tensor, nn

Named = Iterable[tuple[str, Tensor]]
FAMILIES = (
    "torchvision_models",
    "transformer_models",
    "other_models",
    "autograd_programs",
    "precision_programs",
    "randomness_programs",
    "normalisation_programs",
    "memory_tool_programs",
    "transform_programs",
    "distributed_programs",
    "sharded_programs",
    "pipeline_programs",
    "changing_programs",
    "life_programs",
    "process_programs",
)


@dataclass(frozen=True)
class Training:
    """One program, set up. Everything that it made is to be compared bit for bit."""

    step: Callable[[int], Sequence[Tensor | float | str]]  # of this index; returns what it computed
    modules: Sequence[nn.Module]  # parameters, their gradients, and buffers
    others: Callable[[], Named] = field(default=lambda: ())  # further state

    def state(self) -> Iterator[tuple[str, Tensor]]:
        for index, module in enumerate(self.modules):
            yield from ((f"{index}.{name}", buffer) for name, buffer in module.named_buffers())
            for name, parameter in module.named_parameters():
                yield f"{index}.{name}", parameter
                if parameter.grad is not None:
                    yield f"{index}.{name}.grad", parameter.grad
        yield from self.others()


@dataclass(frozen=True)
class Program:
    make: Callable[[], Training]
    steps: int = 8
    ranks: int = 1
    # Its budget under test: the plain peak less this share of the activation bytes.
    fraction: float = 0.5
    # Why nothing of it is recomputed; its test says that this is so. Empty: a plan is in use.
    kept: str = ""
    # Hardly a step is like another, so that a plan may never be of use.
    varies: bool = False
    # What people wrap in torch.utils.checkpoint to save memory: the comparison of ./dev bench zoo.
    blocks: tuple[type[nn.Module], ...] = ()


def supervised(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
) -> Training:
    """The usual loop. `loss` runs the forward pass of a step."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(index: int) -> list[Tensor]:
        optimizer.zero_grad()
        value = loss(index)
        value.backward()
        optimizer.step()
        return [value]

    return Training(step, [model])


def programs(families: Iterable[str] = FAMILIES) -> dict[str, Program]:
    """By "family.name"; a family whose packages are missing raises ImportError."""
    return {
        f"{family}.{name}": program
        for family in families
        for name, program in import_module(f"zoo.{family}").PROGRAMS.items()
    }


def program(name: str) -> Program:
    family, _, short = name.partition(".")
    return import_module(f"zoo.{family}").PROGRAMS[short]
