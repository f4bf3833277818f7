"""How training scripts end, or live with others: each name is a program; test_life.py compares.

Plain PyTorch. Steps are printed as they come, results written to --out where there are any.
"""

import argparse
import atexit
import ctypes
import gc
import hashlib
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import planner
import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor, nn
from zoo.residual_net import ROWS, loss_of, network

STEPS = 8
MIB = 1 << 20
FORKS = 12


class Trainer:
    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, rows: int = ROWS) -> Tensor:
        self.optimizer.zero_grad()
        loss = loss_of(self.model, rows)
        loss.backward()
        self.optimizer.step()
        planner.settle()
        return loss

    def train(self, steps: int = STEPS) -> list[str]:
        return [show(self.step().item()) for _ in range(steps)]


def show(value: float) -> str:
    print(f"loss {value.hex()}", flush=True)
    return value.hex()


def parameters(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


# --- ends -----------------------------------------------------------------------------------------

KEPT: list[object] = []  # lives until the interpreter is gone


def ends_with_a_graph(_: Path) -> None:
    """A graph lives in a module's global when the interpreter ends."""
    trainer = Trainer()
    trainer.train()
    KEPT.append(loss_of(trainer.model))


def ends_with_a_cycle(_: Path) -> None:
    """A graph hangs in a cycle that no collection has seen."""
    gc.disable()
    trainer = Trainer()
    trainer.train()
    cycle: list[object] = [loss_of(trainer.model)]
    cycle.append(cycle)


def ends_within_a_step(_: Path) -> None:
    trainer = Trainer()
    trainer.train()
    trainer.model[3].register_forward_hook(lambda *_: sys.exit(3))
    trainer.step()


def ends_within_backward(_: Path) -> None:
    trainer = Trainer()
    trainer.train()
    trainer.model[3].register_full_backward_hook(lambda *_: sys.exit(3))
    trainer.step()


def fails_within_backward(_: Path) -> None:
    trainer = Trainer()
    trainer.train()
    trainer.model[3].register_full_backward_hook(lambda *_: 1 / 0)
    trainer.step()


def is_interrupted(_: Path) -> None:
    """By Ctrl-C, and does not catch it."""
    trainer = Trainer()
    trainer.train()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits none
    trainer.model[3].register_forward_hook(lambda *_: signal.raise_signal(signal.SIGINT))
    trainer.step()


def is_terminated(_: Path) -> None:
    """As a cluster's scheduler does it, without a handler."""
    trainer = Trainer()
    trainer.train()
    os.kill(os.getpid(), signal.SIGTERM)


def trains_at_exit(_: Path) -> None:
    trainer = Trainer()
    trainer.train()
    atexit.register(trainer.train, 2)


# --- interrupts -----------------------------------------------------------------------------------


def is_interrupted_anywhere(out: Path) -> None:
    """Twenty times, by a timer; what it trains after that, from the first state, is compared."""
    trainer = Trainer()
    first = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for turn in range(20):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02 + 0.007 * turn)
            for _ in range(100):
                trainer.step()
        except KeyboardInterrupt:
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    trainer.model.load_state_dict(first)
    trainer.optimizer.state.clear()
    torch.manual_seed(2)
    losses = trainer.train()
    out.write_text(json.dumps({"losses": losses, "parameters": parameters(trainer.model)}))


# --- memory ---------------------------------------------------------------------------------------


def halves_its_batch(out: Path) -> None:
    """Tries batches that a budget may refuse; what is trained after that is compared."""
    trainer = Trainer()
    losses = trainer.train()
    for rows in (32 * ROWS, 16 * ROWS, 8 * ROWS, 4 * ROWS):
        try:
            loss_of(trainer.model, rows).backward()
        except RuntimeError as error:
            assert "memory" in str(error), error
            print(f"refused {rows}", flush=True)
    torch.manual_seed(2)
    losses += trainer.train()
    out.write_text(json.dumps({"losses": losses, "parameters": parameters(trainer.model)}))


def goes_on_when_the_system_is_short(out: Path) -> None:
    """The kernel refuses pages, between steps and in one; then it has some again.

    A batch takes 1 MiB for each ROWS, and each of a block's values as much.
    """
    trainer = Trainer()
    losses = trainer.train()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = next(line for line in open("/proc/self/status") if line.startswith("VmData:"))
    limit = int(used.split()[1]) * 1024 + 64 * MIB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    attempts: list[Callable[[], object]] = [
        lambda: torch.empty(256 * MIB, dtype=torch.uint8),
        lambda: loss_of(trainer.model, 40 * ROWS).backward(),
    ]
    for attempt in attempts:
        try:
            attempt()
            raise SystemExit("the limit was not kept")
        except RuntimeError as error:
            assert "memory" in str(error), error
            print(f"refused: {error}", flush=True)
    resource.setrlimit(resource.RLIMIT_DATA, before)
    torch.manual_seed(2)
    losses += trainer.train()
    out.write_text(json.dumps({"losses": losses, "parameters": parameters(trainer.model)}))


def locks_its_memory(out: Path) -> None:
    """mlockall() of what is there, then of all to come: what is freed goes back all the same."""
    trainer = Trainer()
    losses = trainer.train(2)
    for flags in (1, 3):  # MCL_CURRENT, with MCL_FUTURE
        if ctypes.CDLL(None).mlockall(flags) != 0:
            print("no right to lock memory", flush=True)
        losses += trainer.train()
    out.write_text(json.dumps({"losses": losses, "parameters": parameters(trainer.model)}))


# --- processes ------------------------------------------------------------------------------------


def worker(index: int, folder: str) -> None:
    trainer = Trainer()
    torch.manual_seed(index)
    losses = trainer.train()
    Path(folder, f"worker-{index}.json").write_text(json.dumps(losses))


def spawns_trainers(out: Path) -> None:
    """Two processes train; this one only waits."""
    multiprocessing.spawn(worker, (str(out.parent),), nprocs=2)
    collect_workers(out)


def forks_trainers(out: Path) -> None:
    """Two children of a process that has trained go on by themselves, as it does."""
    trainer = Trainer()
    trainer.train()
    children = [
        multiprocessing.get_context("fork").Process(target=worker, args=(index, str(out.parent)))
        for index in range(2)
    ]
    for child in children:
        child.start()
    KEPT.extend(trainer.train())
    for child in children:
        child.join()
        assert child.exitcode == 0
    collect_workers(out)


def forks_within_steps(out: Path) -> None:
    """In the middle of each forward pass a child is made, that ends the step and trains on; another
    thread allocates all the while."""
    trainer = Trainer()
    ended = threading.Event()
    thread = threading.Thread(target=allocate_until, args=(ended,), daemon=True)
    thread.start()
    results: dict[str, object] = {}
    child_of = ""  # the name of the child that this process is

    def fork(*_: object) -> None:
        nonlocal child_of
        if child_of or len(results) == FORKS:
            return
        name = f"child-{len(results)}"
        child = os.fork()
        if child == 0:
            signal.alarm(150)  # rather than hang
            child_of = name
            return
        assert os.waitpid(child, 0)[1] == 0, name
        results[name] = json.loads((out.parent / name).read_text())

    trainer.model[3].register_forward_hook(fork)
    losses = []
    for _ in range(FORKS + 4):
        losses.append(show(trainer.step().item()))
        if child_of:
            trained = [losses, trainer.train(1), parameters(trainer.model)]
            (out.parent / child_of).write_text(json.dumps(trained))
            os._exit(0)
    ended.set()
    thread.join()
    out.write_text(json.dumps(results | {"own": losses, "parameters": parameters(trainer.model)}))


def allocate_until(ended: threading.Event) -> None:
    while not ended.is_set():
        torch.empty(1000)


def collect_workers(out: Path) -> None:
    found = {f"worker-{index}": (out.parent / f"worker-{index}.json") for index in range(2)}
    results = {name: json.loads(path.read_text()) for name, path in found.items()}
    out.write_text(json.dumps(results | {"own": KEPT}))


PROGRAMS: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        ends_with_a_graph,
        ends_with_a_cycle,
        ends_within_a_step,
        ends_within_backward,
        fails_within_backward,
        is_interrupted,
        is_terminated,
        trains_at_exit,
        is_interrupted_anywhere,
        goes_on_when_the_system_is_short,
        locks_its_memory,
        forks_within_steps,
        halves_its_batch,
        spawns_trainers,
        forks_trainers,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    PROGRAMS[options.program](Path(options.out.replace("{rank}", "0")))


if __name__ == "__main__":
    main()
