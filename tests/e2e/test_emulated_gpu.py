"""Torch alone on an emulated GPU: its CUDA build over our CUDA runtime (tests/emulated_gpu)."""

import ast

import emulated_gpu

pytestmark = emulated_gpu.where_it_is_built

SCHEDULES = ("eager", "lazy", "random:3")

PLAIN = """
import hashlib, torch, torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
torch.manual_seed(3)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
ends = torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100)
model = torch.nn.Sequential(ends[0], encoder, ends[1]).to("DEVICE")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for step in range(4):
    words = torch.randint(100, (8, 33), generator=torch.Generator().manual_seed(step)).to("DEVICE")
    with sdpa_kernel(SDPBackend.MATH):
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item().hex())
bits = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
print([losses, hashlib.sha256(bits).hexdigest()])
"""


def plain_bits(device: str, variables: dict[str, str]) -> list:
    status, output = emulated_gpu.code(PLAIN.replace("DEVICE", device), variables)
    assert status == 0, output
    return ast.literal_eval(output.strip().splitlines()[-1])


def test_torch_alone_computes_what_a_cpu_does() -> None:
    on_cpu = plain_bits("cpu", {})
    for schedule in SCHEDULES:
        assert plain_bits("cuda", {"EMULATED_GPU_SCHEDULE": schedule}) == on_cpu, schedule


# Meta kernels in Python see the number that the task is asked with. The other thread runs the task,
# while this one holds the GIL and waits: what it lets go of must not be Python's.
NUMBERS = """
import faulthandler, threading, torch, torch._meta_registrations
faulthandler.dump_traceback_later(300, exit=True)
x = torch.ones(1000, device="cuda")
def wait():
    for _ in range(300):
        x.mul_(1.0)
        torch.cuda.synchronize()
waiting = threading.Thread(target=wait)
waiting.start()
while waiting.is_alive():
    torch.cuda.is_current_stream_capturing()
print("done", int(x.sum()))
"""


def test_a_task_keeps_nothing_of_pythons() -> None:
    status, output = emulated_gpu.code(NUMBERS, {"EMULATED_GPU_SCHEDULE": "lazy"})
    assert status == 0 and "done 1000" in output, output


# Another order of sums than the CPU's: equal but for rounding. Each training pass moves the state
# of its dropout on.
RECURRENT = """
import copy, torch
torch.manual_seed(3)
deep = {"num_layers": 2, "bidirectional": True, "batch_first": True}
for options in ({}, deep, {"bias": False}):
    net, x = torch.nn.LSTM(6, 5, **options), torch.randn(4, 7, 6)
    found = []
    for device in ("cpu", "cuda"):
        here, rows = copy.deepcopy(net).to(device), x.detach().to(device).requires_grad_()
        y, (h, c) = here(rows)
        (y.square().sum() + h.sin().sum() + c.cos().sum()).backward()
        found.append([y, h, c, rows.grad, *(p.grad for p in here.parameters())])
    for expected, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours.cpu(), expected)
net, x = torch.nn.LSTM(6, 5, num_layers=2, dropout=0.5).cuda(), torch.randn(4, 7, 6).cuda()
assert not torch.equal(net(x)[0], net(x)[0])
net.eval()
assert torch.equal(net(x)[0], net(x)[0])
print("done")
"""


def test_cudnns_lstm() -> None:
    status, output = emulated_gpu.code(RECURRENT)
    assert status == 0 and "done" in output, output
