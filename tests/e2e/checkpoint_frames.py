"""Programs with torch.utils.checkpoint, use_reentrant=False: what a region computes again lies in a
frame until its backward pass reads it.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from second_order import ROWS, WIDTH, Block, Programs, main
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

BLOCKS = 3

Steps = Iterator[tuple[nn.Module, Tensor]]
Region = Callable[[Tensor], Tensor]


def again(region: Region, x: Tensor) -> Tensor:
    return checkpoint(region, x, use_reentrant=False)


class Net(nn.Module):
    """Each block is a region. It saves about six tensors, and two have 4 MiB each."""

    def __init__(self, block: Callable[[], nn.Module] = Block) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)
        self.blocks = nn.ModuleList(block() for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = again(block, x)
        return self.out(x)


Backward = Callable[[nn.Module, Tensor], None]


def train(
    net: nn.Module,
    steps: int,
    backward: Backward = lambda net, loss: loss.backward(),
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD,
) -> Steps:
    updates = optimizer(net.parameters(), 1e-3)
    for _ in range(steps):
        loss = F.cross_entropy(net(torch.randn(ROWS, WIDTH)), torch.randint(0, 10, (ROWS,)))
        backward(net, loss)
        updates.step()
        updates.zero_grad()
        yield net, loss


def blocks(steps: int) -> Steps:
    return train(Net(), steps, optimizer=torch.optim.Adam)


def to_its_end(steps: int) -> Steps:
    """A region runs on after the last tensor that it saves."""
    with set_checkpoint_early_stop(False):
        yield from train(Net(), steps)


class Nested(Block):
    def forward(self, x: Tensor) -> Tensor:
        return again(super().forward, x).sin()


class Thin(nn.Module):
    """Nothing of it is larger than what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.linear(x))


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.links = nn.ModuleList(Thin() for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for link in self.links:
            x = again(link, x)
        return x


def chain(steps: int) -> Steps:
    """Of 16,384 rows: 8 MiB a tensor."""
    net = Chain()
    updates = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(steps):
        loss = net(torch.randn(8 * ROWS, WIDTH)).pow(2).mean()
        loss.backward()
        updates.step()
        updates.zero_grad()
        yield net, loss


def nested(steps: int) -> Steps:
    return train(Net(Nested), steps)


def twice(steps: int) -> Steps:
    def backward(net: nn.Module, loss: Tensor) -> None:
        loss.backward(retain_graph=True)
        (loss * 0.5).backward()

    return train(Net(), steps, backward)


def in_part(steps: int) -> Steps:
    """The first pass reads the last region alone. The second pass reads all regions."""

    def backward(net: nn.Module, loss: Tensor) -> None:
        last = list(net.blocks[-1].parameters())
        torch.autograd.backward(loss * 0.5, inputs=last, retain_graph=True)
        loss.backward()

    return train(Net(), steps, backward)


class Overwriting(Block):
    """No version is looked at: backward reads what is there by then."""

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.up(self.norm(x)))
        scaled = gate * 2.0
        gate.add_(0.25)
        return x + self.down(scaled * gate)


def in_place(steps: int) -> Steps:
    return train(Net(Overwriting), steps)


class OtherData(Block):
    """What has a history is kept as it was; what has none is kept itself, with its new data."""

    def forward(self, x: Tensor) -> Tensor:
        high = self.up(self.norm(x))
        sine = high.sin()
        high.data = high.data * 0.5
        mask = torch.ones_like(high)
        scaled = sine * mask
        mask.add_(0.5)
        mask.data = mask.data * 1.5
        return x + self.down(scaled * mask)


def other_data(steps: int) -> Steps:
    return train(Net(OtherData), steps)


class Kept(torch.autograd.Function):
    """Saves its input and its result, and is asked for both as they are."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        result = x.exp()
        mask = (x.detach() > 0).to(x.dtype)
        ctx.save_for_backward(x, result, mask)
        return result * mask

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        x, result, mask = ctx.saved_tensors
        return gradient * result * mask + 0.0 * x


class OwnFunction(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(Kept.apply(self.up(self.norm(x)) * 0.1))


def own_function(steps: int) -> Steps:
    return train(Net(OwnFunction), steps)


class Views(Block):
    """Saves parts of what it was given, and of what it makes."""

    def forward(self, x: Tensor) -> Tensor:
        left, right = F.relu(x).chunk(2, dim=1)
        high = self.up(self.norm(torch.cat([left * right, right.sin()], dim=1)))
        return x + self.down(high.view(-1, 4, WIDTH).transpose(1, 2).exp().mul(0.1).flatten(1))


def views(steps: int) -> Steps:
    return train(Net(Views), steps)


class OtherHooks(Block):
    """Hooks of its own within the region, which read what they are given."""

    def forward(self, x: Tensor) -> Tensor:
        def pack(tensor: Tensor) -> Tensor:
            return tensor.detach().clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            high = self.up(self.norm(x)).sin()
        return x + self.down(F.gelu(high))


def other_hooks(steps: int) -> Steps:
    return train(Net(OtherHooks), steps)


class Counting(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Watched(Block):
    def forward(self, x: Tensor) -> Tensor:
        with Counting():
            high = F.gelu(self.up(self.norm(x)))
        return x + self.down(high)


def watched(steps: int) -> Steps:
    return train(Net(Watched), steps)


class Slopes(Block):
    """A backward pass within the region, whose gradient is saved."""

    def forward(self, x: Tensor) -> Tensor:
        probe = torch.ones_like(x, requires_grad=True)
        (slope,) = torch.autograd.grad((probe * probe).sin().sum(), probe)
        high = F.gelu(self.up(self.norm(x * slope)))
        slope.data.mul_(0.5)
        return x + self.down(high)


def inner_pass(steps: int) -> Steps:
    with set_checkpoint_early_stop(False):
        yield from train(Net(Slopes), steps)


def differentiated(steps: int) -> Steps:
    """A penalty on the slope of a net of regions: each is run again under create_graph."""
    net = Net()
    updates = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(steps):
        x = torch.randn(ROWS // 2, WIDTH, requires_grad=True)
        torch.manual_seed(1)
        out = net(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = out.pow(2).mean() + slope.pow(2).mean()
        loss.backward()
        updates.step()
        updates.zero_grad()
        yield net, loss


class Failing(Block):
    fails = False

    def forward(self, x: Tensor) -> Tensor:
        high = F.gelu(self.up(self.norm(x)))
        if Failing.fails and torch._C._current_graph_task_id() >= 0:
            raise RuntimeError("the region fails")
        return x + self.down(high)


def fails(steps: int) -> Steps:
    """Every third step's first region fails as it runs again; the program goes on."""

    def backward(net: nn.Module, loss: Tensor) -> None:
        backward.step += 1
        Failing.fails = backward.step % 3 == 0
        try:
            loss.backward()
        except RuntimeError as error:
            assert "the region fails" in str(error)
            net.zero_grad()

    backward.step = 0
    return train(Net(Failing), steps, backward)


def hooked(steps: int) -> Steps:
    """A hook saves a gradient of a region's parameter, which is written before its graph runs."""
    net, kept = Net(), []
    weight = net.blocks[0].up.weight

    def save(gradient: Tensor) -> None:
        with torch.enable_grad():
            kept.append((gradient * weight).sum())

    weight.register_hook(save)

    def backward(net: nn.Module, loss: Tensor) -> None:
        kept.clear()
        loss.backward()
        weight.grad.data.mul_(0.5)
        (slope,) = torch.autograd.grad(kept.pop(), weight)
        weight.grad.add_(slope, alpha=0.1)

    return train(net, steps, backward)


PROGRAMS: Programs = {
    "blocks": blocks,
    "to_its_end": to_its_end,
    "chain": chain,
    "nested": nested,
    "twice": twice,
    "in_part": in_part,
    "in_place": in_place,
    "other_data": other_data,
    "own_function": own_function,
    "views": views,
    "other_hooks": other_hooks,
    "watched": watched,
    "inner_pass": inner_pass,
    "differentiated": differentiated,
    "fails": fails,
    "hooked": hooked,
}

if __name__ == "__main__":
    main(PROGRAMS)
