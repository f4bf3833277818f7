"""Trains the GPT of train_gpt.py with its parameters, gradients and optimizer sharded: FSDP2.

torchrun --nproc-per-node 2 examples/train_fsdp.py                   # over Gloo
torchrun --nproc-per-node 8 examples/train_fsdp.py --device cuda     # over NCCL
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from train_gpt import GPT, draw_batch, fingerprint, load_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=22)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=6, help="sequences of a rank and step")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", help="write losses and a parameter hash here; {rank} is replaced")
    options = parser.parse_args()

    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))

    torch.manual_seed(options.seed)
    model = GPT(options.layers, options.width, options.heads, options.length, 0.1).to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    torch.manual_seed(options.seed + 1 + rank)  # each rank draws its own dropout masks
    generator = torch.Generator().manual_seed(options.seed + 1 + rank)
    text = load_text(4_000_000)

    losses: list[float] = []
    seconds: list[float] = []
    for step in range(1, options.steps + 1):
        started = time.perf_counter()
        tokens, targets = draw_batch(text, options.batch, options.length, generator)
        loss = model(tokens.to(device), targets.to(device))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor().item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - started)
        if rank == 0:
            print(
                f"step {step:3d}  loss {losses[-1]:.4f}  norm {norm:.3f}  {seconds[-1]:.2f} s",
                flush=True,
            )

    if options.out:
        whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
        result = {
            "losses": [loss.hex() for loss in losses],
            "parameters_sha256": fingerprint(whole),
            "step_seconds": seconds,
        }
        Path(options.out.replace("{rank}", str(rank))).write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
