"""Trains stages of a pipeline over Gloo and writes, by step, what each rank did in its order:
messages, scopes and backward passes; and the losses.

torchrun --nproc-per-node 2 tests/e2e/pipeline_train.py by_hand --out result-{rank}.json
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import ebbtide
import planner
import torch
import torch.distributed as dist
import torch.nn.functional as F
import zoo
from torch import Tensor, nn
from torch.distributed import pipelining
from zoo import Training
from zoo.pipeline_programs import divided
from zoo.residual_net import WIDTH, batch, network

STEPS, MICROBATCHES, ROWS, DEPTH = 4, 4, 256, 4

done: list[list] = []  # in the present step


def noting_messages(method: Callable, kind: str) -> Callable:
    def noted(group: dist.ProcessGroup, tensors: list[Tensor], peer: int, *rest: int) -> dist.Work:
        number_of = sum(one.numel() for one in tensors if one.is_floating_point())
        if number_of > 1:  # else two stages talk of shapes
            done.append([kind, peer, sum(one.nbytes for one in tensors)])
        return method(group, tensors, peer, *rest)

    return noted


class NotedScope(torch.profiler.record_function):
    def __enter__(self) -> "NotedScope":
        done.append(["scope", self.name])
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        done.append(["scope_end", self.name])


def noting_passes(run_backward: Callable) -> Callable:
    def noted(*arguments: object, **options: object) -> object:
        done.append(["pass"])
        return run_backward(*arguments, **options)

    return noted


def watch() -> None:
    """At the lowest places that Python sees."""
    group = dist.ProcessGroup
    group.send = noting_messages(group.send, "send")
    group.recv = noting_messages(group.recv, "receive")
    pipelining.schedules.record_function = NotedScope
    torch.autograd._engine_run_backward = noting_passes(torch.autograd._engine_run_backward)


class ByHand:
    """One forward, one backward, as Megatron does it: `batched` messages in the steady state."""

    def __init__(self, batched: bool, evaluates: bool) -> None:
        self.rank, self.batched, self.evaluates = dist.get_rank(), batched, evaluates
        self.model = nn.Sequential(*divided(list(network(DEPTH)), 2)[self.rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.hinted = ""

    def turn_to(self, microbatch: int) -> None:
        self.end_turn()
        self.hinted = f"ebbtide:{self.rank}:{microbatch}"
        done.append(["scope", self.hinted])
        ebbtide.stage(self.rank, microbatch)

    def end_turn(self) -> None:
        if self.hinted:
            done.append(["scope_end", self.hinted])
        self.hinted = ""

    def exchange(self, sent: Tensor, received: Tensor) -> None:
        peer = 1 - self.rank
        if not self.batched:
            work = dist.isend(sent, peer)
            dist.recv(received, peer)
            work.wait()
            return
        operations = [dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, received, peer)]
        with torch.no_grad():
            for work in dist.batch_isend_irecv(operations):
                work.wait()

    def first_stage(self, inputs: list[Tensor]) -> list[Tensor]:
        gradient = torch.empty(ROWS, WIDTH)
        outputs: list[Tensor] = []
        for number, x in enumerate(inputs):
            self.turn_to(number)
            outputs.append(self.model(x))
            if number == 0:
                dist.send(outputs[0].detach(), 1)
                continue
            self.exchange(outputs[number].detach(), gradient)
            self.turn_to(number - 1)
            outputs[number - 1].backward(gradient)
        self.turn_to(len(inputs) - 1)
        dist.recv(gradient, 1)
        outputs[-1].backward(gradient)
        return []

    def last_stage(self, labels: list[Tensor]) -> list[Tensor]:
        x = torch.empty(ROWS, WIDTH, requires_grad=True)
        dist.recv(x, 0)
        losses = []
        for number, y in enumerate(labels):
            self.turn_to(number)
            loss = F.cross_entropy(self.model(x), y)
            self.turn_to(number)
            loss.backward()
            losses.append(loss.detach())
            gradient = x.grad
            if number + 1 == len(labels):
                dist.send(gradient, 0)
                break
            x = torch.empty(ROWS, WIDTH, requires_grad=True)
            self.exchange(gradient, x)
        return losses

    def step(self, _: int) -> list[Tensor]:
        self.optimizer.zero_grad()
        x, y = batch(MICROBATCHES * ROWS)
        if self.rank == 0:
            losses = self.first_stage(list(x.split(ROWS)))
        else:
            losses = self.last_stage(list(y.split(ROWS)))
        self.end_turn()
        self.optimizer.step()
        if self.evaluates:
            self.evaluate()
        return losses

    def evaluate(self) -> None:
        """Between two steps, and of neither."""
        of_step = len(done)
        with torch.no_grad():
            x = torch.ones(ROWS, WIDTH)
            if self.rank == 1:
                dist.recv(x, 0)
            ebbtide.stage(self.rank, 0)
            y = self.model(x)
            if self.rank == 0:
                dist.send(y, 1)
        del done[of_step:]


def by_hand(batched: bool = False, evaluates: bool = False) -> Training:
    rank = ByHand(batched, evaluates)
    return Training(rank.step, [rank.model])


BY_HAND = {
    "by_hand": by_hand,
    "by_hand_batched": lambda: by_hand(batched=True),
    "by_hand_evaluating": lambda: by_hand(evaluates=True),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="family.name of the zoo, or one of " + ", ".join(BY_HAND))
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    watch()
    make = BY_HAND.get(options.program) or zoo.program(options.program).make
    training = make()
    steps = []
    for step in range(STEPS):
        done.clear()
        values = training.step(step)
        losses = [value.item().hex() for value in values if isinstance(value, Tensor)]
        steps.append({"done": list(done), "losses": losses})
        planner.settle()
    Path(options.out.replace("{rank}", os.environ["RANK"])).write_text(json.dumps({"steps": steps}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
