"""Models of benchmarks/emulated_gpu.py: real sizes for its clock, cut ones for bits.

Each gives a model on the GPU, its optimizer and a function that computes a step's loss. Built on
the device: an emulated one in mode clock has no contents, so nothing is drawn.
"""

import sys
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

Made = tuple  # model, optimizer, loss


def checkpointed(torch, blocks):
    """The blocks, each under torch.utils.checkpoint."""
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self, block) -> None:
            super().__init__()
            self.block = block

        def forward(self, *inputs):
            return checkpoint(self.block, *inputs, use_reentrant=False)

    wrapped = [Checkpointed(block) for block in blocks]
    if isinstance(blocks, torch.nn.ModuleList):
        return torch.nn.ModuleList(wrapped)
    return torch.nn.Sequential(*wrapped)


def adamw(torch, model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def gpt2(torch, cut: bool, checkpoint: bool) -> Made:
    """GPT-2, 24 layers of 1024, 16 sequences of 1024 tokens, dropout, bfloat16 by autocast."""
    sys.path.insert(0, str(EXAMPLES))
    import train_gpt

    layers, width, heads, length, batch, words = 24, 1024, 16, 1024, 16, 50304
    if cut:
        layers, width, heads, length, batch, words = 6, 128, 4, 128, 16, 512
    train_gpt.VOCABULARY = words
    with torch.device("cuda"):
        model = train_gpt.GPT(layers, width, heads, length, 0.1)
    if checkpoint:
        model.blocks = checkpointed(torch, model.blocks)
    draw = torch.Generator().manual_seed(1)

    def loss():
        tokens = torch.randint(words, (batch, length + 1), generator=draw).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            return model(tokens[:, :-1], tokens[:, 1:].reshape(-1))

    return model, adamw(torch, model), loss


def llama(torch, cut: bool, checkpoint: bool) -> Made:
    """Llama-like, 16 layers of 4096, GQA (8 of 32 heads), 2 sequences of 4096, all in bfloat16."""
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers, heads, length, batch, words = 4096, 16, 32, 4096, 2, 32000
    if cut:
        width, layers, heads, length, batch, words = 128, 6, 4, 128, 16, 512
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=width * 7 // 2,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 4 if heads > 4 else heads // 2,
        vocab_size=words,
        max_position_embeddings=length,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    if checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    draw = torch.Generator().manual_seed(1)

    def loss():
        tokens = torch.randint(words, (batch, length), generator=draw).cuda()
        return model(input_ids=tokens, labels=tokens).loss

    return model, adamw(torch, model), loss


def bert(torch, cut: bool, checkpoint: bool) -> Made:
    """BERT-large, 32 sequences of 512 tokens, dropout, bfloat16 by autocast."""
    from transformers import BertConfig, BertForMaskedLM

    width, layers, heads, length, batch, words = 1024, 24, 16, 512, 32, 30522
    if cut:
        width, layers, heads, length, batch, words = 128, 6, 4, 128, 16, 512
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        vocab_size=words,
        max_position_embeddings=length,
    )
    with torch.device("cuda"):
        model = BertForMaskedLM(config)
    if checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    draw = torch.Generator().manual_seed(1)

    def loss():
        tokens = torch.randint(words, (batch, length), generator=draw).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            return model(input_ids=tokens, labels=tokens).loss

    return model, adamw(torch, model), loss


def vit(torch, cut: bool, checkpoint: bool) -> Made:
    """ViT-L/16, 128 pictures, dropout, bfloat16 by autocast."""
    from torchvision.models import VisionTransformer

    with torch.device("cuda"):
        if cut:
            model = VisionTransformer(64, 8, 6, 4, 128, 512, dropout=0.1)
        else:
            model = VisionTransformer(224, 16, 24, 16, 1024, 4096, dropout=0.1)
    if checkpoint:
        model.encoder.layers = checkpointed(torch, model.encoder.layers)
    shape = (64, 3, 64, 64) if cut else (128, 3, 224, 224)
    return model, adamw(torch, model), pictures(torch, model, shape, torch.contiguous_format)


def resnet(torch, cut: bool, checkpoint: bool) -> Made:
    """ResNet-50, 256 pictures, channels last, bfloat16 by autocast."""
    from torchvision.models import resnet50

    with torch.device("cuda"):
        model = resnet50()
        if cut:  # parameters are most of its end
            model.layer3 = model.layer4 = torch.nn.Identity()
            model.fc = torch.nn.Linear(512, 1000)
    model = model.to(memory_format=torch.channels_last)
    if checkpoint:
        for name in ("layer1", "layer2", "layer3", "layer4"):
            setattr(model, name, checkpointed(torch, getattr(model, name)))
    shape = (64, 3, 64, 64) if cut else (256, 3, 224, 224)
    return model, adamw(torch, model), pictures(torch, model, shape, torch.channels_last)


def pictures(torch, model, shape, layout):
    draw = torch.Generator("cuda").manual_seed(1)

    def loss():
        x = torch.randn(shape, generator=draw, device="cuda")
        labels = torch.randint(1000, shape[:1], generator=draw, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x.contiguous(memory_format=layout))
        return torch.nn.functional.cross_entropy(y.float(), labels)

    return loss


def unet(torch, cut: bool, checkpoint: bool) -> Made:
    """U-Net, 64 to 1024 channels, 16 pictures of 512 x 512, bfloat16 by autocast."""
    nn = torch.nn

    def block(inputs: int, outputs: int):
        layers = []
        for before in (inputs, outputs):
            layers += [
                nn.Conv2d(before, outputs, 3, padding=1),
                nn.GroupNorm(8, outputs),
                nn.SiLU(),
            ]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self, widths: list[int]) -> None:
            super().__init__()
            ins = [3, *widths]
            self.downs = nn.ModuleList(block(a, b) for a, b in zip(ins, widths, strict=False))
            pairs = list(zip(widths[1:], widths, strict=False))[::-1]
            self.opens = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
            self.ups = nn.ModuleList(block(2 * b, b) for _, b in pairs)
            self.last = nn.Conv2d(widths[0], 3, 1)

        def forward(self, x):
            kept = []
            for i, down in enumerate(self.downs):
                x = down(nn.functional.max_pool2d(x, 2) if i else x)
                kept.append(x)
            for opened, up, beside in zip(self.opens, self.ups, kept[-2::-1], strict=True):
                x = up(torch.cat((beside, opened(x)), dim=1))
            return self.last(x)

    widths = [16, 32, 64] if cut else [64, 128, 256, 512, 1024]
    with torch.device("cuda"):
        model = UNet(widths)
    if checkpoint:
        model.downs = checkpointed(torch, model.downs)
        model.ups = checkpointed(torch, model.ups)
    shape = (8, 3, 64, 64) if cut else (16, 3, 512, 512)
    draw = torch.Generator("cuda").manual_seed(1)

    def loss():
        x = torch.randn(shape, generator=draw, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x)
        return nn.functional.mse_loss(y.float(), x)

    return model, adamw(torch, model), loss


def diffusion(torch, cut: bool, checkpoint: bool) -> Made:
    """Diffusion U-Net, 8 latents of 64 x 64, attention to 77 words, bfloat16 by autocast."""
    nn, functional = torch.nn, torch.nn.functional
    widths, size, batch, words, heads = [320, 640, 1280, 1280], 64, 8, (77, 768), 8
    if cut:
        widths, size, words, heads = [32, 64], 32, (16, 64), 4

    class Attention(nn.Module):
        def __init__(self, width: int, other: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.q, self.k, self.v = (nn.Linear(n, width) for n in (width, other, other))
            self.out = nn.Linear(width, width)

        def forward(self, x, other=None):
            y = self.norm(x)
            other = y if other is None else other
            q, k, v = (
                part.unflatten(2, (heads, -1)).transpose(1, 2)
                for part in (self.q(y), self.k(other), self.v(other))
            )
            y = functional.scaled_dot_product_attention(q, k, v)
            return x + self.out(y.transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, width, 3, padding=1)
            )
            self.time = nn.Linear(widths[0], width)
            self.second = nn.Sequential(
                nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
            )
            self.skip = nn.Conv2d(inputs, width, 1)
            self.own, self.words = Attention(width, width), Attention(width, words[1])
            self.mlp = nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.GELU(),
                nn.Linear(4 * width, width),
            )

        def forward(self, x, time, text):
            y = self.first(x) + self.time(time)[:, :, None, None]
            x = self.skip(x) + self.second(y)
            y = x.flatten(2).transpose(1, 2)
            y = self.words(self.own(y), text)
            return (y + self.mlp(y)).transpose(1, 2).unflatten(2, x.shape[2:])

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Conv2d(4, widths[0], 3, padding=1)
            ins = [widths[0], *widths]
            self.downs = nn.ModuleList(Block(a, b) for a, b in zip(ins, widths, strict=False))
            below = [*widths[1:], widths[-1]]
            self.ups = nn.ModuleList(
                Block(a + b, b) for a, b in zip(below[::-1], widths[::-1], strict=True)
            )
            self.leave = nn.Conv2d(widths[0], 4, 3, padding=1)

        def forward(self, x, time, text):
            x, kept = self.enter(x), []
            for down in self.downs:
                kept.append(x := down(x, time, text))
                x = functional.avg_pool2d(x, 2)
            for up in self.ups:
                x = functional.interpolate(x, scale_factor=2.0)
                x = up(torch.cat((x, kept.pop()), dim=1), time, text)
            return self.leave(x)

    with torch.device("cuda"):
        model = UNet()
    if checkpoint:
        model.downs = checkpointed(torch, model.downs)
        model.ups = checkpointed(torch, model.ups)
    draw = torch.Generator("cuda").manual_seed(1)

    def loss():
        x, time, text = (
            torch.randn(shape, generator=draw, device="cuda")
            for shape in ((batch, 4, size, size), (batch, widths[0]), (batch, *words))
        )
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x, time, text)
        return functional.mse_loss(y.float(), x)

    return model, adamw(torch, model), loss


def mixture(torch, cut: bool, checkpoint: bool) -> Made:
    """12 layers of 1024, 8 experts that each choose a quarter of the tokens, bfloat16."""
    nn, functional = torch.nn, torch.nn.functional
    layers, width, heads, length, batch, words = 12, 1024, 16, 1024, 16, 50304
    if cut:
        layers, width, heads, length, batch, words = 4, 128, 4, 128, 16, 512

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.gate = nn.Linear(width, 8, bias=False)
            self.up = nn.Parameter(0.02 * torch.randn(8, width, 4 * width))
            self.down = nn.Parameter(0.02 * torch.randn(8, 4 * width, width))

        def forward(self, x):
            tokens = self.norm(x).flatten(0, 1)
            weights, chosen = self.gate(tokens).softmax(1).topk(len(tokens) // 4, dim=0)
            mine = tokens.index_select(0, chosen.t().flatten()).unflatten(0, (8, -1))
            y = torch.bmm(functional.gelu(torch.bmm(mine, self.up)), self.down)
            y = (y * weights.t().unsqueeze(2)).flatten(0, 1)
            sums = torch.zeros_like(tokens, dtype=y.dtype)
            return x + sums.index_add(0, chosen.t().flatten(), y).view_as(x)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.experts = Experts()

        def forward(self, x):
            q, k, v = (
                part.unflatten(2, (heads, -1)).transpose(1, 2)
                for part in self.qkv(self.norm(x)).chunk(3, dim=2)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.experts(x + self.out(y.transpose(1, 2).flatten(2)))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(words, width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, tokens, targets):
            x = self.tokens(tokens)
            for layer in self.layers:
                x = layer(x)
            return functional.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())

    with torch.device("cuda"):
        model = Model()
    if checkpoint:
        model.layers = checkpointed(torch, model.layers)
    draw = torch.Generator().manual_seed(1)

    def loss():
        tokens = torch.randint(words, (batch, length + 1), generator=draw).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            return model(tokens[:, :-1], tokens[:, 1:])

    return model, adamw(torch, model), loss


# Name: how it is made, and which kind the targets are told of.
MODELS: dict[str, tuple[Callable[..., Made], str]] = {
    "gpt2": (gpt2, "transformer"),
    "llama": (llama, "transformer"),
    "vit": (vit, "transformer"),
    "bert": (bert, "transformer"),
    "resnet": (resnet, "convolution"),
    "unet": (unet, "convolution"),
    "diffusion": (diffusion, "convolution"),
    "mixture": (mixture, "transformer"),
}
