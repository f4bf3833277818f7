"""What happens to programs: errors, interrupts, notebooks, copies."""

import code
import copy
import io
import signal
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import Program, Training
from zoo.residual_net import DEPTH, ROWS, batch, loss_of, network

# --- errors and interrupts within a step ----------------------------------------------------------


class Deliberate(Exception):
    pass


def fail() -> None:
    raise Deliberate


def interrupt() -> None:
    """As Ctrl-C does, at a place that is the same in every run."""
    signal.raise_signal(signal.SIGINT)


def run_out_of_memory() -> None:
    torch.empty(2**50)


def in_forward(model: nn.Sequential, what: Callable[[], None]) -> torch.utils.hooks.RemovableHandle:
    return model[DEPTH // 2].register_forward_hook(lambda *_: what())


def in_backward(
    model: nn.Sequential, what: Callable[[], None]
) -> torch.utils.hooks.RemovableHandle:
    return model[DEPTH // 2].register_full_backward_hook(lambda *_: what())


def disturbed(error: type[BaseException], what: Callable[[], None], first: int = 1) -> Training:
    """Of three steps one is disturbed in forward, one in backward; each is tried again."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def attempt(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    def step(index: int) -> list[Tensor | str]:
        x, y = batch()
        results: list[Tensor | str] = []
        places = {0: in_forward, 1: in_backward}
        if index >= first and index % 3 in places:
            handle = places[index % 3](model, what)
            try:
                attempt(x, y)
            except error:
                results.append(error.__name__)
            handle.remove()
        results.append(attempt(x, y))
        optimizer.step()
        return results

    return Training(step, [model])


def halving() -> Training:
    """The classic handler: out of memory, so the batch is halved, and the error's graph stays."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    errors: list[BaseException] = []

    def step(index: int) -> list[Tensor]:
        rows = ROWS
        while True:
            optimizer.zero_grad()
            try:
                loss = loss_of(model, rows)
                if index % 4 == 2 and rows > ROWS // 4:
                    run_out_of_memory()
                loss.backward()
                break
            except RuntimeError as error:
                errors[:] = [error]  # and with it the frames and all that they hold
                rows //= 2
        optimizer.step()
        return [loss]

    return Training(step, [model])


# --- notebooks ------------------------------------------------------------------------------------

MAKE = """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
TRAIN = """
optimizer.zero_grad()
x, y = batch()
scores = model(x)
loss = F.cross_entropy(scores, y)
loss.backward()
optimizer.step()
"""
LOOK = """
_ = scores = model(x)
scores.mean()
"""
FAIL = """
scores = model(x)
F.cross_entropy(scores, y[:3]).backward()
"""


def notebook() -> Training:
    """Cells, run again and again; one builds the model anew, one fails, and names stay alive."""
    names = {"torch": torch, "F": F, "network": network, "batch": batch}
    shell = code.InteractiveInterpreter(names)
    shell.write = lambda _: None
    modules: list[nn.Module] = []

    def run(cell: str) -> None:
        shell.runcode(compile(cell, "<cell>", "exec"))

    def step(index: int) -> list[Tensor]:
        if index % 7 == 0:
            run(MAKE)
            modules[:] = [names["model"]]
        if index % 4 == 2:
            run(LOOK)
        if index % 5 == 3:
            run(FAIL)  # sys.last_traceback holds its frames until the next failure
        run(TRAIN)
        return [names["loss"]]

    return Training(step, modules)


# --- models that are saved, loaded and copied -----------------------------------------------------


def saving() -> Training:
    """Everything is saved in mid-step; after every third step a new model goes on from there."""
    modules: list[nn.Module] = [network()]
    optimizers = [torch.optim.AdamW(modules[0].parameters())]

    def step(index: int) -> list[Tensor]:
        loss = loss_of(modules[0])
        file = io.BytesIO()
        torch.save(
            {"model": modules[0].state_dict(), "optimizer": optimizers[0].state_dict()}, file
        )
        loss.backward()
        optimizers[0].step()
        optimizers[0].zero_grad()
        if index % 3 == 2:
            file.seek(0)
            loaded = torch.load(file)
            modules[0] = network()
            modules[0].load_state_dict(loaded["model"])
            optimizers[0] = torch.optim.AdamW(modules[0].parameters())
            optimizers[0].load_state_dict(loaded["optimizer"])
        return [loss, torch.tensor(file.getbuffer().nbytes)]

    return Training(step, modules)


def copying() -> Training:
    """The model is copied while a graph of it lives; from the fifth step on the copy is trained."""
    modules: list[nn.Module] = [network()]
    average = copy.deepcopy(modules[0]).requires_grad_(False)

    def step(index: int) -> list[Tensor]:
        model = modules[0]
        loss = loss_of(model)
        copied = copy.deepcopy(model)
        loss.backward()
        with torch.no_grad():
            for parameter, mean in zip(model.parameters(), average.parameters(), strict=True):
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
                mean.lerp_(parameter, 0.1)
        if index == 4:
            modules[0] = copied
        return [loss, loss_of(average)]

    return Training(step, modules, lambda: average.named_parameters())


PROGRAMS = {
    "failing": Program(lambda: disturbed(Deliberate, fail), steps=12),
    "failing_at_first": Program(lambda: disturbed(Deliberate, fail, first=0), steps=12),
    "interrupted": Program(lambda: disturbed(KeyboardInterrupt, interrupt), steps=12),
    "out_of_memory": Program(lambda: disturbed(RuntimeError, run_out_of_memory), steps=12),
    "out_of_memory_at_first": Program(
        lambda: disturbed(RuntimeError, run_out_of_memory, first=0), steps=12
    ),
    # The graphs of two that failed stay while it runs its largest step.
    "halving": Program(halving, steps=12, fraction=0.3),
    "notebook": Program(notebook, steps=16),
    "saving": Program(saving, steps=10),
    "copying": Program(copying, steps=10),
}
