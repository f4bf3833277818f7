"""Nets and habits of scripts for a GPU that know nothing of Ebbtide, each in a process of its own.

python model_programs.py NAME --out FILE    as training_programs.py
"""

import threading
from collections.abc import Callable, Iterator
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from training_programs import ROWS, STEPS, WIDTH, Mlp, main, repeat_bits, rows, square, train

VOCABULARY, LENGTH, TEXTS = 512, 128, 8


def numbers(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(step)


# --- nets


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


# --- what a step is made of


def float16_scaled() -> dict:
    scaler = torch.amp.GradScaler("cuda")

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss

    return train(Mlp(), rows, square, step=step)


def fused_adamw() -> dict:
    def optimizer(parameters: Iterator[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True)

    return train(Mlp(0.1), rows, square, optimizer=optimizer)


def accumulating() -> dict:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        for part in x.chunk(2):
            loss = square(model, part)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def sgd(parameters: Iterator[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    return train(Mlp(0.1), rows, square, step=step, optimizer=sgd)


def flash_without_dropout() -> dict:
    """Outputs that a kernel leaves unwritten, and gradients that it adds in no order."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def loss(net: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return net(x).float().square().mean()

    def texts(step: int) -> Tensor:
        return torch.randn(16, 128, 128, generator=numbers(step))

    return train(model, texts, loss)


class NoOrder(nn.Module):
    """Sums whose order a GPU does not keep, each within a block that is dropped else."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Mlp(0.1)
        self.register_buffer("targets", torch.arange(ROWS) % 64)

    def forward(self, x: Tensor) -> Tensor:
        x = self.net(x)
        sums = x.new_zeros(64, WIDTH).index_add(0, self.targets, x)
        rows_of = self.targets[:, None].expand(-1, WIDTH)
        more = x.new_zeros(64, WIDTH).scatter_add(0, rows_of, F.gelu(x))
        return F.gelu(x.cumsum(dim=1) / WIDTH) + (sums + more)[self.targets] / ROWS


def adding_in_no_order() -> dict:
    return train(NoOrder(), rows, square)


def benchmarked_convolutions() -> dict:
    torch.backends.cudnn.benchmark = True
    return residual_net()


def every_kind_of_draw() -> dict:
    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Mlp(0.1)
            self.masks = nn.Sequential(
                nn.RReLU(), nn.AlphaDropout(0.1), nn.FeatureAlphaDropout(0.1)
            )

        def forward(self, x: Tensor) -> Tensor:
            x = self.masks(self.net(x)) + 0.1 * torch.randn_like(x)
            x = x * torch.bernoulli(torch.full_like(x, 0.9)) + torch.rand_like(x)
            order = torch.randperm(len(x), device=x.device)
            return F.gumbel_softmax(x[order], dim=1) * x

    return train(Draws(), rows, square)


class Squashed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def other_results_in_backward(since: int = 0) -> dict:
    """From that step on tanh gives other results where it runs in a backward pass: run again."""
    now = 0

    def tanh(x: Tensor) -> Tensor:
        y = 2 * torch.sigmoid(2 * x) - 1
        again = torch._C._current_graph_task_id() >= 0 and now >= since
        return y + 1e-3 if again else y

    def batch(step: int) -> Tensor:
        nonlocal now
        now = step
        return rows(step)

    torch.ones(1, device="cuda").tanh()  # an emulated GPU's own comes first
    library = torch.library.Library("aten", "IMPL")
    library.impl("tanh", tanh, "CUDA")
    return train(Squashed(), batch, square)


def other_results_in_a_late_backward() -> dict:
    return other_results_in_backward(since=9)


# --- what surrounds it


def prefetching() -> dict:
    """The next batch is copied on a stream of its own."""
    side = torch.cuda.Stream()
    fetched: list[Tensor] = []

    def fetch(step: int) -> None:
        with torch.cuda.stream(side):
            fetched.append(rows(step).pin_memory().cuda(non_blocking=True))

    def batch(step: int) -> Tensor:
        if step == 0:
            fetch(0)
        torch.cuda.current_stream().wait_stream(side)
        x = fetched.pop()
        x.record_stream(torch.cuda.current_stream())
        fetch(step + 1)
        return x

    return train(Mlp(0.1), batch, square)


def scratch_on_a_side_stream() -> dict:
    """Between the passes, where most is kept: what makes room for it is of another stream."""
    side = torch.cuda.Stream()

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        result = square(model, x)
        with torch.cuda.stream(side):
            torch.full((16 << 20,), 1, dtype=torch.uint8, device="cuda")
        return result

    return train(Mlp(0.1), rows, loss)


def pinned_loader() -> dict:
    data = TensorDataset(torch.randn(ROWS * STEPS, WIDTH, generator=numbers(0)))
    batches = iter(DataLoader(data, batch_size=ROWS, num_workers=2, pin_memory=True))
    return train(Mlp(), lambda step: next(batches)[0].cuda(non_blocking=True), square)


def saving_in_a_thread() -> dict:
    """Parameters go to the host on a side stream, asked for by a thread of its own."""
    side = torch.cuda.Stream()
    saved: list[Tensor] = []
    model = Mlp(0.1)
    steps = count()

    def save() -> None:
        with torch.cuda.stream(side):
            saved.extend(p.detach().to("cpu", non_blocking=True) for p in model.parameters())
        side.synchronize()

    def step(net: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        loss = square(net, x)
        loss.backward()
        if next(steps) % 3 == 0:
            side.wait_stream(torch.cuda.current_stream())
            thread = threading.Thread(target=save)
            thread.start()
            thread.join()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    result = train(model, rows, square, step=step)
    result["losses"] += [p.double().sum().item().hex() for p in saved]
    return result


def out_of_memory_caught() -> dict:
    caught = count()

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        try:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            next(caught)
        return square(model, x)

    result = train(Mlp(0.1), rows, loss)
    assert next(caught) == STEPS
    return result


def cache_emptied() -> dict:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        loss = square(model, x)
        torch.cuda.empty_cache()
        loss.backward()
        torch.cuda.memory_summary()
        assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() > 0
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        torch.cuda.empty_cache()
        return loss

    return train(Mlp(0.1), rows, square, step=step)


def own_pool() -> dict:
    """A buffer in a pool of its own, made and ended within each step."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            scale = torch.full((WIDTH,), 0.5, device="cuda")
        return (model(x) * scale).square().mean()

    return train(Mlp(0.1), rows, loss)


def graphed_callables() -> dict:
    """Its warm-up runs on a side stream, and trains nothing."""
    block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()).cuda()
    sample = torch.randn(ROWS, WIDTH, device="cuda", requires_grad=True)
    block = torch.cuda.make_graphed_callables(block, (sample,))
    return train(nn.Sequential(Mlp(), block), rows, square)


def whole_step_captured() -> dict:
    model = Mlp().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    x = rows(0).cuda()

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = square(model, x)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay(_net: nn.Module, _optimizer: torch.optim.Optimizer, batch: Tensor) -> Tensor:
        x.copy_(batch)
        graph.replay()
        return loss

    return train(model, rows, square, step=replay)


PROGRAMS: dict[str, Callable[[], dict]] = {
    f.__name__: f
    for f in (
        gpt2,
        llama,
        bert,
        vit,
        resnet,
        residual_net,
        resnet_channels_last,
        unet,
        mixture_of_experts,
        gan,
        float16_scaled,
        fused_adamw,
        accumulating,
        flash_without_dropout,
        adding_in_no_order,
        benchmarked_convolutions,
        every_kind_of_draw,
        other_results_in_backward,
        other_results_in_a_late_backward,
        prefetching,
        scratch_on_a_side_stream,
        pinned_loader,
        saving_in_a_thread,
        out_of_memory_caught,
        cache_emptied,
        own_pool,
        graphed_callables,
        whole_step_captured,
    )
}

if __name__ == "__main__":
    main(PROGRAMS, __doc__)
