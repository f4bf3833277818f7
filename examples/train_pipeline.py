"""Trains a small GPT as a pipeline: each rank has a stage of its blocks, or two of them.

torchrun --nproc-per-node 2 examples/train_pipeline.py                         # 1F1B over Gloo
torchrun --nproc-per-node 4 examples/train_pipeline.py --schedule zero-bubble  # two stages a rank
torchrun --nproc-per-node 8 examples/train_pipeline.py --microbatches 8 --device cuda  # over NCCL
"""

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.utils.checkpoint import checkpoint
from train_gpt import VOCABULARY, Block, draw_batch, fingerprint, load_text

ONE_STAGE_A_RANK = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}
TWO_STAGES_A_RANK = {
    "interleaved": ScheduleInterleaved1F1B,
    "zero-bubble": ScheduleInterleavedZeroBubble,
}


class Embedding(nn.Module):
    def __init__(self, width: int, length: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.dropout(self.tokens(tokens) + self.positions(positions))


class Checkpointed(nn.Module):
    """A block whose backward pass computes it again: what is set by hand without Ebbtide."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False)


def make_stage(options: argparse.Namespace, stage: int, stages: int) -> nn.Sequential:
    """Stage `stage` of the model, its blocks divided as evenly as it goes."""
    torch.manual_seed(options.seed + stage)
    begin, end = (options.layers * part // stages for part in (stage, stage + 1))
    blocks = [Block(options.width, options.heads, 0.1) for _ in range(begin, end)]
    layers = nn.Sequential()
    if stage == 0:
        layers.append(Embedding(options.width, options.length, 0.1))
    for number, block in enumerate(blocks):
        layers.append(Checkpointed(block) if number < options.checkpoint else block)
    if stage == stages - 1:
        layers.append(nn.LayerNorm(options.width))
        layers.append(nn.Linear(options.width, VOCABULARY, bias=False))
    for module in layers.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    return layers


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def clip_gradients(parameters: list[nn.Parameter], limit: float) -> float:
    """By the norm over all ranks."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squared = nn.utils.get_total_norm(gradients).square()
    dist.all_reduce(squared)
    norm = squared.sqrt()
    nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    schedules = [*ONE_STAGE_A_RANK, *TWO_STAGES_A_RANK]
    parser.add_argument("--schedule", choices=schedules, default="1f1b")
    parser.add_argument("--steps", type=int, default=22)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4, help="sequences of one microbatch")
    parser.add_argument("--microbatches", type=int, default=4, help="of one step")
    parser.add_argument(
        "--checkpoint", type=int, default=0, help="blocks of each stage computed again in backward"
    )
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", help="write losses and a parameter hash here; {rank} is replaced")
    options = parser.parse_args()

    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    several = options.schedule in TWO_STAGES_A_RANK
    numbers = [rank, rank + ranks] if several else [rank]
    count = ranks * len(numbers)
    modules = nn.ModuleList(make_stage(options, number, count) for number in numbers)
    modules.to(device)
    stages = [
        PipelineStage(module, number, count, device)
        for number, module in zip(numbers, modules, strict=True)
    ]
    if several:
        make = partial(TWO_STAGES_A_RANK[options.schedule], stages)
    else:
        make = partial(ONE_STAGE_A_RANK[options.schedule], stages[0])
    schedule = make(options.microbatches, loss_fn=cross_entropy)
    optimizer = torch.optim.AdamW(
        modules.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1
    )
    torch.manual_seed(options.seed + 1 + rank)  # each rank draws its own dropout masks
    generator = torch.Generator().manual_seed(options.seed + 1)  # but all draw the same batches
    text = load_text(4_000_000)

    results: list[float] = []  # on the rank that has the last stage
    seconds: list[float] = []
    for step in range(1, options.steps + 1):
        started = time.perf_counter()
        rows = options.batch * options.microbatches
        tokens, targets = draw_batch(text, rows, options.length, generator)
        inputs = (tokens.to(device),) if 0 in numbers else ()
        losses: list[Tensor] = []
        if count - 1 in numbers:
            schedule.step(*inputs, target=targets.to(device), losses=losses, return_outputs=False)
        else:
            schedule.step(*inputs, return_outputs=False)
        norm = clip_gradients(list(modules.parameters()), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if losses:
            results.append(sum(loss.item() for loss in losses) / len(losses))
        seconds.append(time.perf_counter() - started)
        if losses:
            print(
                f"step {step:3d}  loss {results[-1]:.4f}  norm {norm:.3f}  {seconds[-1]:.2f} s",
                flush=True,
            )

    if options.out:
        result = {
            "losses": [loss.hex() for loss in results],
            "parameters_sha256": fingerprint(modules.state_dict()),
            "step_seconds": seconds,
        }
        Path(options.out.replace("{rank}", str(rank))).write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
