"""Trains programs that say where a step ends: some of their own, and those of the zoo.

python tests/e2e/hinted_train.py --hints each life_programs.copying --out result.json
"""

import random
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import ebbtide
import torch
import torch.nn.functional as F
import zoo
import zoo_train
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from zoo import Program, Training
from zoo.residual_net import batch, loss_of, network

RATE = 0.01


def written_by_numpy() -> Training:
    """What trains is written where nobody is told."""
    model = network()

    def step(_: int) -> list[Tensor]:
        loss = loss_of(model)
        loss.backward()
        for parameter in model.parameters():
            values = parameter.data.numpy()
            values -= RATE * parameter.grad.numpy()
            parameter.grad = None
        return [loss]

    return Training(step, [model])


def saliency() -> Training:
    """Nothing is trained at all."""
    model = network().requires_grad_(False)

    def step(_: int) -> list[Tensor]:
        x, y = batch()
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        return [loss, *torch.autograd.grad(loss, x)]

    return Training(step, [model])


def update(model: nn.Module) -> None:
    """Into new tensors: a graph that is still to run backward has the old ones."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data = parameter.data - RATE * parameter.grad
            parameter.grad = None


def late(batches: int, forward_first: bool) -> Training:
    """Backward so many batches late."""
    model = network()
    waiting: list[Tensor] = []

    def backward(most: int) -> None:
        if len(waiting) > most:
            waiting.pop(0).backward()

    def step(_: int) -> list[Tensor]:
        if not forward_first:
            backward(batches - 1)
        waiting.append(loss_of(model))
        backward(batches)
        update(model)
        return [waiting[-1].detach()]

    return Training(step, [model])


OWN = {
    "written_by_numpy": Program(written_by_numpy, steps=10),
    "saliency": Program(saliency, steps=10),
    "late": Program(lambda: late(1, True), steps=16),
    "late_backward_first": Program(lambda: late(1, False), steps=16),
    "two_late": Program(lambda: late(2, True), steps=20),
}


# --- where hints are given ------------------------------------------------------------------------


def in_another_thread() -> None:
    thread = threading.Thread(target=ebbtide.step)
    thread.start()
    thread.join()


def between(hint: Callable[[int], None], program: Program) -> Program:
    def make() -> Training:
        training = program.make()

        def step(index: int) -> list[Tensor | float | str]:
            values = training.step(index)
            hint(index)
            return values

        return replace(training, step=step)

    return replace(program, make=make)


def twice(_: int) -> None:
    ebbtide.step()
    ebbtide.step()


def at_first(index: int) -> None:
    if index < 4:
        ebbtide.step()


def anywhere(seed: int) -> None:
    """In forward, in backward and after updates, by chance."""
    drawn = random.Random(seed)

    def perhaps(*_: object) -> None:
        if drawn.random() < 0.04:
            ebbtide.step()

    def after_forward(_module: nn.Module, _inputs: object, output: object) -> None:
        perhaps()
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(perhaps)

    nn.modules.module.register_module_forward_hook(after_forward)
    register_optimizer_step_post_hook(perhaps)


PLACES: dict[str, Callable[[int], None]] = {
    "each": lambda _: ebbtide.step(),
    "twice": twice,
    "at_first": at_first,
    "in_another_thread": lambda _: in_another_thread(),
    "anywhere": lambda _: None,
}


def main() -> None:
    """`--hints PLACE` comes first; "anywhere-7" is a seed."""
    place = sys.argv[2]
    del sys.argv[1:3]
    of_the_zoo = zoo.program
    kind, _, seed = place.partition("-")
    if seed:
        anywhere(int(seed))
    hint = PLACES[kind]
    zoo.program = lambda name: between(hint, OWN[name] if name in OWN else of_the_zoo(name))
    zoo_train.main()


if __name__ == "__main__":
    main()
