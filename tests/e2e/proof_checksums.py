"""Checksums of the module that `ebbtide prove` uses: what they tell apart, and that they run no
operation of torch, since a budget bounds what torch allocates."""

import torch
import torch.distributed as dist
from ebbtide._proof import _checksum, _stretches
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode


class Refuses(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        raise AssertionError(f"{function} ran")


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        raise NotImplementedError


def checksum(*tensors: torch.Tensor) -> str:
    with Refuses():
        text, skipped = _checksum(tensors)
    assert text and not skipped, skipped
    return text


def notices_its_last_element(tensor: torch.Tensor) -> None:
    before = checksum(tensor)
    assert checksum(tensor) == before
    with torch.no_grad():
        tensor[(-1,) * tensor.dim()].add_(1)
    assert checksum(tensor) != before


def main() -> None:
    weights = torch.arange(24.0).view(4, 6)
    for looks in (
        nn.Parameter(weights.clone()),
        torch.tensor(1.0),
        weights.clone().t(),
        torch.arange(120.0).view(1, 2, 5, 12).contiguous(memory_format=torch.channels_last),
        weights.clone()[:, 1:4],  # with gaps
        torch.zeros(1).expand(5),
        torch.ones(3, dtype=torch.bfloat16),
    ):
        notices_its_last_element(looks)
    # What lies in the gaps is another tensor's.
    wide = weights.clone()
    before = checksum(wide[:, 1:4])
    wide[:, 4:] += 1
    assert checksum(wide[:, 1:4]) == before
    # The sign of zero and the order of parameters count.
    assert checksum(torch.zeros(2)) != checksum(-torch.zeros(2))
    assert checksum(torch.zeros(1), torch.ones(1)) != checksum(torch.ones(1), torch.zeros(1))
    assert checksum(torch.empty(0), torch.ones(1)) != checksum(torch.ones(1))
    assert list(_stretches((4, 6), (6, 1))) == [(0, 24)]
    assert list(_stretches((2, 3), (1, 2))) == [(0, 6)]
    assert list(_stretches((2, 3), (6, 1))) == [(0, 3), (6, 3)]
    # What has no memory is counted, and what has some beside it is compared.
    sparse, wrapper = weights.to_sparse(), Wrapper(weights)
    text, skipped = _checksum([sparse, weights, wrapper, torch.empty(2, device="meta")])
    assert text and skipped == {"torch.sparse_coo": 1, "Wrapper": 1, "Tensor": 1}, skipped
    assert _checksum([sparse]) == (None, {"torch.sparse_coo": 1})
    # Of a DTensor its part.
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    local = weights.clone()
    sharded = DTensor.from_local(local, init_device_mesh("cpu", (1,)))
    assert checksum(sharded) == checksum(local)
    dist.destroy_process_group()
    print("checked")


if __name__ == "__main__":
    main()
