"""Two ranks of a small DDP training, started as launchers start theirs.

spawn         mp.spawn; the rank is an argument (also Lightning's and Fabric's ddp_spawn)
fork          the same by fork (their ddp_fork)
notebook      by fork, RANK and LOCAL_RANK set in the child: accelerate's notebook_launcher
ray           RANK and all others set in a worker that has imported torch before
lightning     the first process starts the second; LOCAL_RANK, NODE_RANK, WORLD_SIZE (also Fabric)
late          mp.spawn; there is no process group until steps have been trained and a socket is open
deepspeed     by its launcher, which has set all variables
fork_trained  the parent trains a step before it forks a child that trains
torchrun, srun, open_mpi, mpich  two processes that have no process group: variables tell the rank
alone         one process, which starts no other one
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import ebbtide
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

RANKS = 2
VARIABLES = {  # rank, local rank, world size, ranks on the machine
    "torchrun": ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    "srun": (
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_TASKS_PER_NODE",
    ),
    "open_mpi": tuple(f"OMPI_COMM_WORLD_{v}" for v in ("RANK", "LOCAL_RANK", "SIZE", "LOCAL_SIZE")),
    "mpich": ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),
}


def settled() -> bool:
    """Do all ranks know by now how many share the machine?"""
    known = ebbtide.stats().get("local_world_size") == RANKS
    answers = torch.tensor([float(known)])
    dist.all_reduce(answers, op=dist.ReduceOp.MIN)
    return bool(answers.item())


def train(model: nn.Module, steps: int, rank: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(1024, 256, generator=inputs)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def wait_for_a_socket() -> None:
    """One is opened just before the first line is written."""
    while not list(Path(os.environ["EBBTIDE_SOCKET_DIR"]).rglob("*.sock")):
        time.sleep(0.02)


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [m for _ in range(8) for m in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))]
    return nn.Sequential(*layers)


def work(rank: int, asked: argparse.Namespace) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=asked.port)
    if asked.how in ("ray", "notebook"):
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    if asked.how == "ray":
        os.environ.update(LOCAL_WORLD_SIZE=str(RANKS), NODE_RANK="0")
    model = network()
    if asked.how == "late":
        train(model, 2, rank)
        wait_for_a_socket()
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    if asked.how == "late":
        dist.barrier()
    parallel = nn.parallel.DistributedDataParallel(model)
    train(parallel, asked.steps, rank)
    if asked.settle:
        while not settled():
            train(parallel, 1, rank)
        train(parallel, 1, rank)
    latest = time.monotonic() + 600  # the test has given up: ranks in sessions of their own end
    while asked.until and not asked.until.exists() and time.monotonic() < latest:
        time.sleep(0.02)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    if asked.out:
        with open(asked.out.replace("{rank}", str(rank)), "w") as file:
            json.dump({"parameters": digest.hexdigest()}, file)
    dist.barrier()
    dist.destroy_process_group()


def as_lightning(asked: argparse.Namespace) -> None:
    second = None
    if "LOCAL_RANK" not in os.environ:
        os.environ.update(NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(RANKS))
        second = subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"LOCAL_RANK": "1"})
    work(int(os.environ["LOCAL_RANK"]), asked)
    assert second is None or second.wait() == 0


def by_variables(asked: argparse.Namespace) -> None:
    names = VARIABLES[asked.how]
    if names[0] in os.environ:
        alone(asked)
        print(f"local rank {ebbtide.stats()['local_rank']}", flush=True)
        return
    variables = [
        dict(zip(names, map(str, (r, r, RANKS, RANKS)), strict=True)) for r in range(RANKS)
    ]
    command = [sys.executable, *sys.argv]
    started = [subprocess.Popen(command, env=os.environ | told) for told in variables]
    assert [one.wait() for one in started] == [0] * RANKS


def alone(asked: argparse.Namespace) -> None:
    train(network(), asked.steps, 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("how")
    parser.add_argument("--port", required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--settle", action="store_true", help="train on until all ranks know it")
    parser.add_argument("--until", type=Path, help="ranks of a group wait for that file, then end")
    parser.add_argument("--out")
    asked = parser.parse_args()
    if asked.how == "lightning":
        as_lightning(asked)
    elif asked.how in VARIABLES:
        by_variables(asked)
    elif asked.how == "alone":
        alone(asked)
    elif asked.how == "deepspeed":
        work(int(os.environ["RANK"]), asked)
    elif asked.how == "fork_trained":
        alone(asked)
        child = mp.get_context("fork").Process(target=alone, args=(asked,))
        child.start()
        child.join()
    else:
        start = "fork" if asked.how in ("fork", "notebook") else "spawn"
        mp.start_processes(work, (asked,), RANKS, start_method=start)


if __name__ == "__main__":
    main()
