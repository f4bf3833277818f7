"""Trains a small ResNet on scikit-learn's images of handwritten digits.

python examples/train_cnn.py                             # one process
torchrun --nproc-per-node 2 examples/train_cnn.py        # data parallel over Gloo
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """Three stages of `layers / 3` residual blocks each, every stage at half the resolution."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        blocks: list[nn.Module] = []
        inputs = width
        for index in range(layers):
            outputs = width * 2 ** (3 * index // layers)
            blocks.append(Residual(inputs, outputs, 1 if inputs == outputs else 2))
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def load_images(limit: int) -> tuple[TensorDataset, TensorDataset]:
    """Training and test images, 1×32×32, from the 8×8 originals."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0 - 0.5
    images = F.interpolate(images, size=32, mode="bilinear", align_corners=False)
    labels = torch.tensor(digits.target)
    held_out = 297
    return (
        TensorDataset(images[held_out:][:limit], labels[held_out:][:limit]),
        TensorDataset(images[:held_out], labels[:held_out]),
    )


def evaluate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((model(images).argmax(1) == labels).sum())
    model.train()
    return right / len(loader.dataset)


def fingerprint(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--layers", type=int, default=9, help="residual blocks")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--images", type=int, default=1500, help="images of an epoch")
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--out", help="write losses and a parameter hash here; {rank} is replaced")
    options = parser.parse_args()

    rank = int(os.environ.get("RANK", "0"))
    distributed = "WORLD_SIZE" in os.environ
    if distributed:
        dist.init_process_group("gloo")

    torch.manual_seed(options.seed)
    model: nn.Module = ResNet(options.layers, options.width)
    if distributed:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    train, test = load_images(options.images)
    sampler = DistributedSampler(train, seed=options.seed) if distributed else None
    train_loader = DataLoader(
        train,
        options.batch,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=options.workers,
        generator=torch.Generator().manual_seed(options.seed),
    )
    test_loader = DataLoader(test, options.batch)

    losses: list[float] = []
    accuracies: list[float] = []
    seconds: list[float] = []

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        epoch = 0
        while True:
            if sampler is not None:
                sampler.set_epoch(epoch)
            yield from train_loader  # the last batch of an epoch is smaller
            accuracies.append(evaluate(model, test_loader))
            epoch += 1
            if rank == 0:
                print(f"epoch {epoch}  accuracy {accuracies[-1]:.4f}", flush=True)

    source = batches()
    for step in range(1, options.steps + 1):
        images, labels = next(source)
        started = time.perf_counter()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - started)
        if rank == 0:
            print(f"step {step:3d}  loss {losses[-1]:.4f}  {seconds[-1]:.2f} s", flush=True)

    if options.out:
        plain = model.module if distributed else model
        result = {
            "losses": [loss.hex() for loss in losses],
            "accuracies": accuracies,
            "parameters_sha256": fingerprint(plain),
            "step_seconds": seconds,
        }
        Path(options.out.replace("{rank}", str(rank))).write_text(json.dumps(result))
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
