"""Nets for a GPU that know nothing of Ebbtide, each in a process of its own.

python model_programs.py NAME --out FILE    as training_programs.py
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_programs import WIDTH, Mlp, main, numbers, repeat_bits, rows, square, train

VOCABULARY, LENGTH, TEXTS = 512, 128, 8


def words(step: int) -> Tensor:
    return torch.randint(VOCABULARY, (TEXTS, LENGTH), generator=numbers(step))


def next_word(model: nn.Module, x: Tensor) -> Tensor:
    return model(input_ids=x, labels=x).loss


def gpt2() -> dict:
    from transformers import GPT2Config, GPT2LMHeadModel

    repeat_bits()
    config = GPT2Config(n_layer=4, n_head=4, n_embd=128, vocab_size=VOCABULARY, n_positions=LENGTH)
    return train(GPT2LMHeadModel(config), words, next_word)


def llama() -> dict:
    """Two query heads share keys and values; bfloat16."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return next_word(model, x)

    return train(LlamaForCausalLM(config), words, loss)


def bert() -> dict:
    from transformers import BertConfig, BertForMaskedLM

    repeat_bits()
    config = BertConfig(
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )
    return train(BertForMaskedLM(config), words, next_word)


def images(step: int) -> Tensor:
    return torch.randn(16, 3, 64, 64, generator=numbers(step))


def labelled(model: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(model(x), torch.arange(len(x), device=x.device) % 10)


def vit() -> dict:
    from torchvision.models import VisionTransformer

    repeat_bits()
    model = VisionTransformer(64, 8, 4, 4, 128, 512, dropout=0.1, num_classes=10)
    return train(model, images, labelled)


def resnet() -> dict:
    from torchvision.models import resnet18

    return train(resnet18(num_classes=10), images, labelled)


def resnet_channels_last() -> dict:
    from torchvision.models import resnet18

    model = resnet18(num_classes=10).to(memory_format=torch.channels_last)

    def loss(net: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return labelled(net, x.to(memory_format=torch.channels_last))

    return train(model, images, loss)


class Residual(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(y)))


def residual_net() -> dict:
    """As resnet, but its activations are most of what it needs."""
    ends = (nn.Conv2d(3, 32, 3, 2, 1), nn.Sequential(nn.Flatten(), nn.LazyLinear(10)))
    model = nn.Sequential(ends[0], *(Residual() for _ in range(4)), ends[1])
    model(images(0))
    return train(model, images, labelled)


def benchmarked_convolutions() -> dict:
    torch.backends.cudnn.benchmark = True
    return residual_net()


class UNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.down = self.block(3, width)
        self.middle = self.block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Sequential(self.block(2 * width, width), nn.Conv2d(width, 3, 1))

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Sequential:
        layers = (
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.SiLU(),
        )
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down(x)
        second = self.middle(F.max_pool2d(first, 2))
        return self.last(torch.cat((first, self.up(second)), dim=1))


def unet() -> dict:
    return train(UNet(), images, lambda model, x: F.mse_loss(model(x), x))


class Experts(nn.Module):
    """Each row goes to one of four: how many there are is known on the device alone."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(dim=-1).max(dim=-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            of_expert = (chosen == i).nonzero().squeeze(1)
            y[of_expert] = expert(x[of_expert]) * weights[of_expert, None]
        return x + y


def mixture_of_experts() -> dict:
    repeat_bits()
    return train(nn.Sequential(Mlp(), Experts(), Mlp()), rows, square)


class Adversaries(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator, self.judge = Mlp(0.1), nn.Sequential(Mlp(), nn.Linear(WIDTH, 1))

    def forward(self, x: Tensor) -> Tensor:
        made = self.generator(x)
        judged = F.softplus(-self.judge(x)).mean() + F.softplus(self.judge(made.detach())).mean()
        return judged + F.softplus(-self.judge(made)).mean()


def gan() -> dict:
    return train(Adversaries(), rows, lambda model, x: model(x))


PROGRAMS: dict[str, Callable[[], dict]] = {
    f.__name__: f
    for f in (
        gpt2,
        llama,
        bert,
        vit,
        resnet,
        resnet_channels_last,
        residual_net,
        benchmarked_convolutions,
        unet,
        mixture_of_experts,
        gan,
    )
}

if __name__ == "__main__":
    main(PROGRAMS, __doc__)
