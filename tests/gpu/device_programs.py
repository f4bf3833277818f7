"""What scripts that know nothing of Ebbtide do with a GPU besides training: streams, pinned memory,
threads, its allocator, graphs. Each is in a process of its own.

python device_programs.py NAME --out FILE    as training_programs.py
"""

import threading
from collections.abc import Callable
from itertools import count

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from training_programs import ROWS, STEPS, WIDTH, Mlp, main, numbers, rows, square, train


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
