"""Small trainings as their libraries' users write them, 2 ranks by torchrun unless said otherwise.

trainer     transformers' Trainer, a GPT-2
lightning   Lightning's Trainer, an encoder; with --devices 2 it starts the second rank itself
timm        a ViT of timm, AdamW, in a loop by hand
resnet      a ResNet of timm, SGD with momentum, in a loop by hand
convnext    a ConvNeXt of timm, AdamW, in a loop by hand
accelerate  accelerate with gradient accumulation, a perceptron
"""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 1 << 15  # more than any run takes


class Drawn(Dataset):
    """Samples by number, each the same in every run."""

    def __init__(self, *shape: int, labels: int, words: bool = False) -> None:
        self.shape, self.labels, self.words = shape, labels, words

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        by_number = torch.Generator().manual_seed(index)
        if self.words:
            text = torch.randint(self.labels, self.shape, generator=by_number)
            return {"input_ids": text, "labels": text}
        x = torch.randn(self.shape, generator=by_number)
        return {"x": x, "labels": torch.tensor(index % self.labels)}


def trainer(asked: argparse.Namespace) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(vocab_size=256, n_positions=64, n_embd=96, n_layer=4, n_head=4)
    arguments = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=asked.batch,
        max_steps=asked.steps,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    words = Drawn(64, labels=256, words=True)
    Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=words).train()


def lightning(asked: argparse.Namespace) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(96, 4, 192, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            return self.encoder(batch["x"]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    lightning.seed_everything(1, verbose=False)
    quiet = dict.fromkeys(
        ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False
    )
    strategy = "ddp" if asked.devices > 1 else "auto"
    run = lightning.Trainer(
        max_steps=asked.steps, accelerator="cpu", devices=asked.devices, strategy=strategy, **quiet
    )
    run.fit(Module(), DataLoader(Drawn(48, 96, labels=2), batch_size=asked.batch))


def train_by_hand(asked: argparse.Namespace, net: nn.Module, of: type, **options: float) -> None:
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = of(net.parameters(), **options)
    batches = iter(DataLoader(Drawn(3, 64, 64, labels=10), batch_size=asked.batch))
    for _ in range(asked.steps):
        batch = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(net(batch["x"]), batch["labels"]).backward()
        optimizer.step()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def timm(asked: argparse.Namespace) -> None:
    from timm import create_model

    net = create_model("vit_tiny_patch16_224", img_size=64, depth=4, num_classes=10)
    train_by_hand(asked, net, torch.optim.AdamW, lr=1e-3)


def resnet(asked: argparse.Namespace) -> None:
    from timm import create_model

    net = create_model("resnet10t", num_classes=10)
    train_by_hand(asked, net, torch.optim.SGD, lr=0.01, momentum=0.9)


def convnext(asked: argparse.Namespace) -> None:
    from timm import create_model

    # Its own widths would hold more in the optimizer's state than in activations.
    net = create_model("convnext_atto", depths=(2, 2, 2, 2), dims=(24, 48, 96, 192), num_classes=10)
    train_by_hand(asked, net, torch.optim.AdamW, lr=1e-3)


def accelerate(asked: argparse.Namespace) -> None:
    from accelerate import Accelerator

    blocks = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())]
    net = nn.Sequential(*blocks, nn.Linear(256, 10))
    run = Accelerator(cpu=True, gradient_accumulation_steps=2)
    data = DataLoader(Drawn(32, 256, labels=10), batch_size=asked.batch)
    net, optimizer, data = run.prepare(net, torch.optim.AdamW(net.parameters()), data)
    batches = iter(data)
    for _ in range(2 * asked.steps):
        batch = next(batches)
        with run.accumulate(net):
            run.backward(net(batch["x"]).mean(1).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    run.end_training()


def main() -> None:
    kinds = (trainer, lightning, timm, resnet, convnext, accelerate)
    programs = {one.__name__: one for one in kinds}
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=programs)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--devices", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    programs[asked.library](asked)


if __name__ == "__main__":
    main()
