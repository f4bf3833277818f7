"""What a program can see of its tensors is as in PyTorch alone: objects, errors, references, what a
mode sees dispatched."""

import re
from pathlib import Path

import pytest
from conftest import MIB
from likeness import CASES
from processes import Finished, code, run, script

PROGRAM = script("tests/e2e/likeness.py")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict:
    done = run(PROGRAM, {}, tmp_path_factory.mktemp("plain")).succeeded()
    assert done.results[0].keys() == CASES.keys()
    return done.results[0]


@pytest.mark.parametrize(
    "variables", [{"EBBTIDE": "1"}, {"EBBTIDE_BUDGET": "1GiB"}], ids=["measured", "budget"]
)
def test_program_sees_what_it_sees_without(
    variables: dict[str, str], plain: dict, tmp_path: Path
) -> None:
    found = run(PROGRAM, variables, tmp_path).succeeded().results[0]
    assert {name for name in CASES if found[name] != plain[name]} == set()


# Without a budget the first steps alone are recorded: each of these is one of them in its process.
@pytest.mark.parametrize(
    "cases",
    [
        "write a saved nested tensor,detach a saved input and let go of it,"
        "a mode sees outputs saved",
        "a mode sees inputs saved,a Function's saved tensors",
    ],
    ids=["errors", "objects"],
)
def test_program_sees_it_in_recorded_steps(cases: str, plain: dict, tmp_path: Path) -> None:
    program = script("tests/e2e/likeness.py", "--cases", cases)
    found = run(program, {"EBBTIDE": "1"}, tmp_path).succeeded().results[0]
    assert {name for name in found if found[name] != plain[name]} == set()
    assert ",".join(found) == cases


# 30 of 4 MiB, kept, and a budget of 40: counted, they go over it.
@pytest.mark.parametrize(
    "made", ["copy.deepcopy(x)", "torch.UntypedStorage(2**22)"], ids=["deepcopy", "storage"]
)
def test_storage_made_without_a_tensor_counts(made: str, tmp_path: Path) -> None:
    """The kept, and the tensor."""
    text = f"import copy, torch; x = torch.ones(2**20); kept = [{made} for _ in range(30)]"
    done = run(code(text), {"EBBTIDE_BUDGET": "40MiB"}, tmp_path, out=False)
    assert done.status == 0, done.output
    assert most_bytes(done) == pytest.approx(124 * MIB, rel=0.03), done.output


def most_bytes(done: Finished) -> float:
    (most,) = re.findall(r"budget of 40.0 MiB was exceeded, ([\d.]+) MiB at most", done.output)
    return float(most) * MIB


STAGES = """
import torch
import torch.distributed.checkpoint as dcp
state = {str(i): torch.ones(2**20) for i in range(8)}
dcp.async_save(state, checkpoint_id="saved").result()
"""


# 8 of 4 MiB, and as much again where they are staged, under a budget of 40.
def test_what_an_asynchronous_checkpoint_stages_counts(tmp_path: Path) -> None:
    done = run(code(STAGES), {"EBBTIDE_BUDGET": "40MiB"}, tmp_path, out=False)
    assert done.status == 0, done.output
    assert most_bytes(done) == pytest.approx(64 * MIB, rel=0.03), done.output


SWAPS = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
torch.__future__.set_swap_module_params_on_conversion(True)
layers = [m for _ in range(6) for m in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))]
net = nn.Sequential(*layers)
if SLICES:
    flat = nn.utils.parameters_to_vector(net.parameters()).detach()
    nn.utils.vector_to_parameters(flat, net.parameters())
x = torch.randn(1024, 256)
for step in range(24):
    loss = net(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
    net.zero_grad()
    print("loss", loss.item().hex())
    if step % 6 == 3:
        net.double()
        net.float()
    if step % 6 == 4:
        net.load_state_dict({name: p * 0.99 for name, p in net.state_dict().items()})
    if step % 6 == 5:
        for layer in net:
            for p in list(layer.parameters()):
                torch.utils.swap_tensors(p, nn.Parameter(p.detach() * 1.01))
"""


@pytest.mark.parametrize("slices", [False, True], ids=["whole", "slices_of_one"])
def test_parameters_are_swapped_while_steps_drop_and_spill(slices: bool, tmp_path: Path) -> None:
    """Plain a step needs 25 MiB."""
    program = code(f"SLICES = {slices}\n{SWAPS}")
    plain = run(program, {}, tmp_path / "plain", out=False)
    done = run(program, {"EBBTIDE_BUDGET": "17MiB"}, tmp_path / "budget", out=False)
    done.succeeded()
    losses = re.findall(r"^loss (\S+)$", plain.output, re.M)
    assert len(losses) == 24, plain.output
    assert re.findall(r"^loss (\S+)$", done.output, re.M) == losses
    assert done.report["recomputed_ops"] + done.report["spilled_bytes"] > 0
    assert done.report["budget_violations"] == 0
