"""Training with other processes and threads beside it."""

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from zoo import Program, Training
from zoo.residual_net import CLASSES, ROWS, WIDTH, batch, network


class Samples(Dataset):
    def __len__(self) -> int:
        return 64 * ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x = torch.randn(WIDTH, generator=torch.Generator().manual_seed(index))
        return x, int(x[:CLASSES].argmax())


def loading(start: str) -> Training:
    """Two workers, started anew in the fifth step, while a graph lives."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def batches() -> Iterator[list[Tensor]]:
        return iter(
            DataLoader(
                Samples(), ROWS // 2, shuffle=True, num_workers=2, multiprocessing_context=start
            )
        )

    state = {"batches": batches()}

    def step(index: int) -> list[Tensor]:
        x, y = next(state["batches"])
        loss = F.cross_entropy(model(x), y)
        if index == 4:
            state["batches"] = batches()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss]

    return Training(step, [model])


def forking() -> Training:
    """A child that inherits a live graph evaluates, trains a step of its own and reports both."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def child(x: Tensor, y: Tensor) -> bytes:
        with torch.no_grad():
            before = F.cross_entropy(model.eval()(x), y).item()
        optimizer.zero_grad()
        loss = F.cross_entropy(model.train()(x), y)
        loss.backward()
        optimizer.step()
        return struct.pack("dd", before, loss.item())

    def step(index: int) -> list[Tensor | str]:
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        results: list[Tensor | str] = [loss]
        if index % 3 == 2:
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                with contextlib.suppress(BaseException):
                    os.write(writer, child(x, y))
                os._exit(0)
            os.close(writer)
            with open(reader, "rb") as file:
                results.append(file.read().hex())
            os.waitpid(pid, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return results

    return Training(step, [model])


def side_by_side() -> Training:
    """Two threads, each with a model: their steps overlap as they happen to."""
    models = [network().eval() for _ in range(2)]  # dropout draws from a generator that all share
    workers = [ThreadPoolExecutor(1) for _ in models]
    meeting = threading.Barrier(2)

    def train(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        meeting.wait()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
        return loss

    def step(_: int) -> list[Tensor]:
        tasks = [
            worker.submit(train, model, *batch())
            for worker, model in zip(workers, models, strict=True)
        ]
        return [task.result() for task in tasks]

    return Training(step, models)


PROGRAMS = {
    "loading_forked": Program(lambda: loading("fork")),
    "loading_spawned": Program(lambda: loading("spawn")),
    "forking": Program(forking),
    "side_by_side": Program(side_by_side, steps=10),
}
