"""The batch-size finders of other packages, each from a size that does not train or up to one.

real_finders.py trainer          prints each size that it tries, and the one that it ends at
real_finders.py trainer 1611     trains with that size alone, and finds nothing
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

STEPS = 6
START = 16384  # rows, from which sizes fall
tried: set[int] = set()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.GELU())]
        self.layers = nn.Sequential(*layers, nn.Linear(512, 10))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": nn.functional.cross_entropy(self.layers(x), labels)}


class Numbers(Dataset):
    """As many as no batch has."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> int:
        return index


def batch_of(numbers: list[int]) -> dict[str, Tensor]:
    rows = len(numbers)
    tried.add(rows)
    return {"x": torch.randn(rows, 512), "labels": torch.zeros(rows, dtype=torch.long)}


def train(rows: int) -> int:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(STEPS):
        net(**batch_of([0] * rows))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    return rows


def accelerate(alone: int | None) -> int:
    from accelerate.utils import find_executable_batch_size

    if alone:
        return train(alone)
    return find_executable_batch_size(train, starting_batch_size=START)()


def halving(alone: int | None) -> int:
    """accelerate's, told to halve the size."""
    from accelerate.utils import find_executable_batch_size

    if alone:
        return train(alone)
    sizes = (START >> times for times in range(1, START.bit_length()))
    return find_executable_batch_size(
        train, starting_batch_size=START, reduce_batch_size_fn=lambda: next(sizes)
    )()


def trainer(alone: int | None) -> int:
    from transformers import Trainer, TrainingArguments

    asked = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=alone or START,
        auto_find_batch_size=alone is None,
        max_steps=STEPS,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    run = Trainer(model=Net(), args=asked, train_dataset=Numbers(), data_collator=batch_of)
    run.train()
    return run._train_batch_size


def lightning(alone: int | None) -> int:
    import lightning
    from lightning.pytorch.tuner import Tuner

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()
            self.batch_size = alone or 512

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            return self.net(**batch)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

        def train_dataloader(self) -> DataLoader:
            return DataLoader(Numbers(), batch_size=self.batch_size, collate_fn=batch_of)

    quiet = dict.fromkeys(
        ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False
    )
    steps = STEPS if alone else -1  # -1: no limit, as by default
    run = lightning.Trainer(max_epochs=1, max_steps=steps, accelerator="cpu", devices=1, **quiet)
    if alone:
        run.fit(Module())
        return alone
    tuner = Tuner(run)
    return tuner.scale_batch_size(Module(), mode="power", init_val=512, steps_per_trial=STEPS)


FINDERS = {
    "accelerate": accelerate,
    "halving": halving,
    "trainer": trainer,
    "lightning": lightning,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("finder", choices=FINDERS)
    parser.add_argument("rows", type=int, nargs="?")
    options = parser.parse_args()
    rows = FINDERS[options.finder](options.rows)
    print("tried", *sorted(tried))
    print("ends at", rows)


if __name__ == "__main__":
    main()
