"""Runs a training script as settled.py does; with a budget, each rank waits after its fourth step
until the ranks have come to a plan for the job, or to none.

agreed.py LIVES train.py …   trains so many times, and forms the process group anew for each
"""

import os
import runpy
import sys
import time
from pathlib import Path

import planner
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

FIRST_LOOK = 4  # the step after that of the reports
LOOKS_SECONDS = 0.5  # each rank looks five times in a second

steps = 0  # that are done


def is_over() -> bool:
    """The first round: the keys are those of plugin/src/job/job_round.hpp."""
    store = dist.distributed_c10d._get_process_group_store(dist.group.WORLD)
    if not store.check(["ebbtide/round"]):
        return False
    job, _, number = store.get("ebbtide/round").decode().partition(" ")
    verdict = f"ebbtide/{job}-1/verdict"
    if int(number) > 1:
        return True
    if not store.check([verdict]):
        return False
    return not store.get(verdict).startswith(b"plan ") or store.check([f"ebbtide/{job}-1/outcome"])


def after_step(*_: object) -> None:
    global steps
    steps += 1
    planner.settle()
    if steps == FIRST_LOOK and "EBBTIDE_BUDGET" in os.environ:
        while not is_over():
            time.sleep(0.01)
        time.sleep(LOOKS_SECONDS)


def main() -> None:
    lives = int(sys.argv[1])
    del sys.argv[:2]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    register_optimizer_step_post_hook(after_step)
    store, rank, ranks = next(dist.rendezvous("env://"))
    init = dist.init_process_group
    for life in range(lives):
        of_life = dist.PrefixStore(f"life-{life}", store)  # else it finds addresses of the last one
        dist.init_process_group = lambda backend, of_life=of_life: init(
            backend, store=of_life, rank=rank, world_size=ranks
        )
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
