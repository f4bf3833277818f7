"""Runs a training script as settled.py does; one rank does what the others do not.

faulty.py raise-once 1 3 train.py   rank 1 raises after its third step, in its first life
faulty.py detour 1 3 train.py       rank 1 takes another way through its blocks in every third step
"""

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import planner
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

steps = 0  # that are done


def count(*_: object) -> None:
    global steps
    steps += 1
    planner.settle()


def raise_once(at: int) -> None:
    def fail(*_: object) -> None:
        if steps == at and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise ValueError("deliberate")

    register_optimizer_step_post_hook(fail)


def detour(every: int) -> None:
    from train_gpt import Block

    usual: Callable[[Block, Tensor], Tensor] = Block.forward

    def forward(block: Block, x: Tensor) -> Tensor:
        if steps % every != every - 1:
            return usual(block, x)
        x = x + block.attention(block.attention_norm(x)).tanh()
        return x + block.dropout(block.mlp(block.mlp_norm(x))).clamp(-1, 1)

    Block.forward = forward


def main() -> None:
    fault, rank, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    del sys.argv[:4]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    register_optimizer_step_post_hook(count)
    if int(os.environ["RANK"]) == rank:
        {"raise-once": raise_once, "detour": detour}[fault](number)
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
