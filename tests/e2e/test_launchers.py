"""Which rank a process is under each launcher: docs/launchers.md has a row for each."""

import base64
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import MIB
from processes import PYTHON, ROOT, Finished, Program, free_port, run, script

MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
SHARE = MACHINE_BYTES // 2 * 40 // 100  # of one of two ranks on the machine


def two_ranks(how: str, budget: str, sockets: Path, *more: str) -> tuple[Program, dict[str, str]]:
    """One command and its variables. Its ranks write results and reports as torchrun's do."""
    base = free_port(2)
    itself = 1 if how != "torchrun" else 2  # other modes start the second rank themselves
    options = ("--port", str(base + 1), *more)
    program = script("tests/e2e/launched_train.py", how, *options, ranks=itself)
    variables = {
        "EBBTIDE_BUDGET": budget,
        "EBBTIDE_PORT": str(base),
        "EBBTIDE_SOCKET_DIR": str(sockets),
    }
    return replace(program, ranks=2), variables if budget else {}


def launched(how: str, budget: str, folder: Path, sockets: Path, *more: str) -> Finished:
    program, variables = two_ranks(how, budget, sockets, *more)
    return run(program, variables, folder).succeeded(over_budget=True)


def places(output: str) -> dict[str, tuple[bool, str, str]]:
    """By rank, from its last line: whether it has the port, its job's folder, its socket."""
    served = re.findall(r"rank (\d)\].*?(metrics http\S+, )?socket (\S+)/rank-(\d)\.sock", output)
    return {rank: (bool(port), folder, name) for rank, port, folder, name in served}


def all_are_found(output: str, how: str) -> bool:
    """Ranks that train before there is a group take each other's place at first."""
    known = all(f"this is rank {rank} of 2, " in output for rank in range(2))
    return places(output).keys() == {"0", "1"} and (known or how != "late")


def launched_until_found(
    how: str,
    budget: str,
    folder: Path,
    sockets: Path,
    *more: str,
    also: dict[str, str] | None = None,
) -> Finished:
    """Ranks end only once both have said where they are: they ask each other first."""
    folder.mkdir(exist_ok=True)
    may_end = folder / "end"
    lines: list[str] = []

    def watch(line: str) -> None:
        if may_end.exists() and " (torch " in line:  # a first line: the job is run again
            lines.clear()
            may_end.unlink()
        lines.append(line)
        if all_are_found("".join(lines), how):
            may_end.touch()

    program, variables = two_ranks(how, budget, sockets, *more, "--until", str(may_end))
    return run(program, variables | (also or {}), folder, watch=watch).succeeded(over_budget=True)


def check_ranks(done: Finished) -> None:
    assert [(report["rank"], report["world_size"]) for report in done.reports] == [(0, 2), (1, 2)]
    assert done.results[0] == done.results[1]
    last = places(done.output)
    assert last["0"][0] and not last["1"][0], done.output  # local rank 0 alone has the port
    assert last["0"][1] == last["1"][1] and (last["0"][2], last["1"][2]) == ("0", "1")


@pytest.mark.parametrize("how", ["spawn", "fork", "notebook", "ray", "lightning", "late"])
def test_each_rank_has_its_own_budget_report_and_socket(
    how: str, tmp_path: Path, sockets: Path
) -> None:
    done = launched_until_found(how, "default=40%,rank1=600MiB", tmp_path, sockets, "--settle")
    check_ranks(done)
    alone = "(40% of what one process has)"
    if how == "late":  # those that find no group for 5 s warn, too, as one that is alone
        assert alone in done.output, done.output
    else:
        assert "warning" not in done.output and alone not in done.output, done.output
    # 40 % of the machine over the two ranks on it; rank 1's entry goes before that.
    assert abs(done.reports[0]["budget_bytes"] - SHARE) <= 1
    assert done.reports[1]["budget_bytes"] == 600 * MIB


# What sbatch sets for a script that asks for two tasks on a node, and what srun sets besides for
# the first one of them.
OF_SBATCH = {
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "2",
}
OF_SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
}


@pytest.mark.parametrize("inherited", [OF_SBATCH, OF_SBATCH | OF_SRUN], ids=["sbatch", "srun"])
def test_ranks_that_a_task_of_slurm_starts_answer_each_other(
    inherited: dict[str, str], tmp_path: Path, sockets: Path
) -> None:
    """All have the variables of the first: what is true of rank 0 is not of rank 1."""
    done = launched_until_found(
        "spawn", "default=40%,rank1=600MiB", tmp_path, sockets, "--settle", also=inherited
    )
    check_ranks(done)
    assert "warning" not in done.output, done.output
    assert abs(done.reports[0]["budget_bytes"] - SHARE) <= 1
    assert done.reports[1]["budget_bytes"] == 600 * MIB


def test_a_batch_script_of_slurm_is_one_process(tmp_path: Path) -> None:
    program = script("tests/e2e/launched_train.py", "alone", "--port", "0", "--steps", "2")
    done = run(program, OF_SBATCH | {"EBBTIDE_BUDGET": "40%"}, tmp_path, out=False)
    assert done.status == 0 and done.said(r"\(40% of what one process has\)"), done.output
    assert abs(done.report["budget_bytes"] - MACHINE_BYTES * 40 // 100) <= 1


@pytest.mark.parametrize("how", ["torchrun", "srun", "open_mpi", "mpich"])
def test_a_rank_that_variables_alone_tell_has_its_budget_and_report(
    how: str, tmp_path: Path, sockets: Path
) -> None:
    done = launched(how, "default=40%,rank1=600MiB", tmp_path, sockets, "--steps", "2")
    found = [(r["rank"], r["world_size"], r["budget_bytes"]) for r in done.reports]
    assert found == [(0, 2, SHARE), (1, 2, 600 * MIB)], done.output
    assert set(re.findall(r"local rank (\d)", done.output)) == {"0", "1"}, done.output


def test_a_forked_rank_trains_within_its_budget(tmp_path: Path, sockets: Path) -> None:
    """Plain its steps reach 37 MiB; each of the 24 saved values has 1 MiB."""
    plain = launched("fork", "", tmp_path / "plain", sockets)
    done = launched_until_found("fork", "28MiB", tmp_path / "budget", sockets, "--steps", "6")
    check_ranks(done)
    assert done.results == plain.results
    for report in done.reports:
        assert report["budget_violations"] == 0, done.output
        assert report["recomputed_ops"] + report["spilled_bytes"] > 0


def test_a_child_forked_after_training_began_says_that_it_is_not_managed(
    tmp_path: Path, sockets: Path
) -> None:
    done = launched("fork_trained", "1GiB", tmp_path, sockets, "--steps", "2")
    assert done.output.count("forked after its parent had begun to train") == 1, done.output
    assert [report["steps"] for report in done.reports] == [2]  # the parent's


# --- the launchers themselves ---------------------------------------------------------------------

FABRIC = """
import sys
import torch
from lightning.fabric import Fabric

def work(fabric):
    model = torch.nn.Linear(64, 64)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters()))
    for _ in range(40):
        fabric.backward(model(torch.randn(64, 64)).sum())
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    Fabric(accelerator="cpu", devices=2, strategy=sys.argv[1]).launch(work)
"""

TRAINER = """
import sys
import torch
from {package} import LightningModule, Trainer

class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def training_step(self, batch, index):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters())

if __name__ == "__main__":
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar"], False)
    trainer = Trainer(accelerator="cpu", devices=2, strategy=sys.argv[1], max_steps=40, **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(80 * 64, 64), 64))
"""
LIGHTNING = {
    "lightning.fabric": FABRIC,
    "lightning.pytorch": TRAINER.format(package="lightning.pytorch"),
    "pytorch_lightning": TRAINER.format(package="pytorch_lightning"),
}

ACCELERATE = """
import sys
import torch

def work():
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    net = torch.nn.Linear(64, 64)
    model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters()))
    for _ in range(40):
        accelerator.backward(model(torch.randn(64, 64)).sum())
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    if sys.argv[1] == "notebook":
        from accelerate import notebook_launcher
        notebook_launcher(work, num_processes=2, use_port=sys.argv[2])
    else:
        work()
"""

RAY = """
import torch

def work(config):
    import os
    import ray.train.torch
    import time
    net = ray.train.torch.prepare_model(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(net.parameters())
    for _ in range(300):
        net(torch.randn(64, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.01)
    import ebbtide
    now = ebbtide.stats()
    report = os.environ["EBBTIDE_REPORT"].replace("{rank}", str(now["rank"]))
    while not os.path.exists(report):  # the first one is written after a second
        time.sleep(0.05)
    print("HERE", now["rank"], now["world_size"], now["memory"]["budget_bytes"], flush=True)

if __name__ == "__main__":
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    ray.init(num_cpus=2, include_dashboard=False)
    TorchTrainer(work, torch_config=TorchConfig(backend="gloo"),
                 scaling_config=ScalingConfig(num_workers=2)).fit()
    ray.shutdown()
"""

BUDGETS = "default=40%,rank1=600MiB"


def by_launcher(command: list[str], folder: Path, sockets: Path) -> Finished:
    variables = {"EBBTIDE_BUDGET": BUDGETS, "EBBTIDE_SOCKET_DIR": str(sockets)}
    return run(Program(tuple(command), ranks=2), variables, folder, out=False)


def own_budgets(done: Finished) -> None:
    assert done.status == 0, done.output
    found = [(r["rank"], r["world_size"], r["budget_bytes"]) for r in done.reports]
    assert found == [(0, 2, pytest.approx(SHARE, abs=1)), (1, 2, 600 * MIB)], done.output


@pytest.mark.nightly  # up to 30 s: its ranks import Lightning anew
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "ddp_fork"])
@pytest.mark.parametrize("package", LIGHTNING)
def test_lightning(package: str, strategy: str, tmp_path: Path, sockets: Path) -> None:
    pytest.importorskip(package)
    (tmp_path / "train.py").write_text(LIGHTNING[package])
    own_budgets(by_launcher([PYTHON, "train.py", strategy], tmp_path, sockets))


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["launch", "notebook"])
def test_accelerate(how: str, tmp_path: Path, sockets: Path) -> None:
    pytest.importorskip("accelerate")
    (tmp_path / "train.py").write_text(ACCELERATE)
    port = str(free_port())
    launcher = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1"
    options = [*launcher.split(), "--mixed_precision", "no", "--main_process_port", port]
    command = [PYTHON, *(options if how == "launch" else []), "train.py", how, port]
    own_budgets(by_launcher(command, tmp_path, sockets))


@pytest.mark.nightly
def test_deepspeed(tmp_path: Path, sockets: Path) -> None:
    pytest.importorskip("deepspeed")
    steps = ["tests/e2e/launched_train.py", "deepspeed", "--port", str(port := free_port())]
    launcher = ["-m", "deepspeed.launcher.launch", "--no_local_rank", "--master_port", str(port)]
    ranks = base64.urlsafe_b64encode(b'{"localhost": [0, 1]}').decode()
    command = [PYTHON, *launcher, "--world_info", ranks, str(ROOT / steps[0]), *steps[1:]]
    own_budgets(by_launcher(command, tmp_path, sockets))


@pytest.mark.nightly  # 30 s: Ray starts a cluster for it
def test_ray_train(tmp_path: Path, sockets: Path) -> None:
    """Ray ends its workers without exit handlers: their reports are written while they run."""
    pytest.importorskip("ray.train")
    (tmp_path / "train.py").write_text(RAY)
    done = by_launcher([PYTHON, "train.py"], tmp_path, sockets)
    own_budgets(done)
    assert set(re.findall(r"HERE (\d 2 \d+)", done.output)) == {
        f"0 2 {done.reports[0]['budget_bytes']}",
        f"1 2 {600 * MIB}",
    }, done.output
