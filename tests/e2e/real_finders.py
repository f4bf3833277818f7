"""The batch-size finders of other packages, each from a size that does not train or up to one."""

import sys

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

STEPS = 6


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
    return {"x": torch.randn(rows, 512), "labels": torch.zeros(rows, dtype=torch.long)}


def accelerate() -> int:
    from accelerate.utils import find_executable_batch_size

    @find_executable_batch_size(starting_batch_size=16384)
    def train(batch_size: int) -> int:
        net = Net()
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(STEPS):
            net(**batch_of([0] * batch_size))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        return batch_size

    return train()


def trainer() -> int:
    from transformers import Trainer, TrainingArguments

    asked = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=16384,
        auto_find_batch_size=True,
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


def lightning() -> int:
    import lightning
    from lightning.pytorch.tuner import Tuner

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()
            self.batch_size = 512

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            return self.net(**batch)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

        def train_dataloader(self) -> DataLoader:
            return DataLoader(Numbers(), batch_size=self.batch_size, collate_fn=batch_of)

    quiet = dict.fromkeys(
        ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False
    )
    run = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, **quiet)
    tuner = Tuner(run)
    return tuner.scale_batch_size(Module(), mode="power", init_val=512, steps_per_trial=STEPS)


if __name__ == "__main__":
    finders = {"accelerate": accelerate, "trainer": trainer, "lightning": lightning}
    print("ends at", finders[sys.argv[1]]())
