"""Training on a real GPU within a budget: values are dropped, spilled and computed again.

The bits stay. Skipped where there is no GPU.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
SETTLED = HERE.parent / "e2e" / "settled.py"  # the script as it is; its optimizer waits for plans

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

STREAMS = "nothing is dropped or spilled from now on"


@dataclass(frozen=True)
class Run:
    result: dict
    report: dict | None
    output: str

    def bits(self) -> tuple:
        return tuple(self.result[key] for key in ("losses", "parameters", "random_state"))


def start(
    name: str, variables: dict[str, str], folder: Path
) -> tuple[subprocess.CompletedProcess, Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    out, report = folder / "result.json", folder / "report.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
    environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if variables:
        environment |= {"EBBTIDE_REPORT": str(report), "EBBTIDE_LOG": "debug"} | variables
    program = (str(HERE / "training_programs.py"), name, "--out", str(out))
    done = subprocess.run(
        (sys.executable, str(SETTLED), *program),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done, out, report


def run(name: str, variables: dict[str, str], folder: Path) -> Run:
    done, out, report = start(name, variables, folder)
    assert done.returncode == 0, done.stdout
    told = json.loads(report.read_text()) if report.exists() else None
    return Run(json.loads(out.read_text()), told, done.stdout)


def within(name: str, share: float, folder: Path, **more: str) -> tuple[Run, Run]:
    """Plain, and with a budget: that share of its blocks' peak, and what others hold."""
    plain = run(name, {}, folder / "plain")
    budget = int(share * plain.result["peak"]) + plain.result["others"]
    ours = run(name, {"EBBTIDE_BUDGET": str(budget)} | more, folder / "ours")
    assert ours.bits() == plain.bits(), ours.output
    assert ours.report is not None, ours.output
    assert ours.report["budget_bytes"] == budget
    assert ours.report["budget_violations"] == 0
    assert not ours.report["pass_through"], ours.output
    return plain, ours


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "mlp_with_dropout",
        "transformer_with_dropout",
        "transformer_in_bf16",
        "lstm_with_dropout",
        "whole_on_a_stream",
        "with_a_graph",
        "switched_in_between",
    ],
)
def test_same_bits_in_less_memory(name: str, tmp_path: Path) -> None:
    plain, ours = within(name, 0.6, tmp_path, EBBTIDE_OFFLOAD="never")
    report = ours.report
    assert report["recomputed_ops"] > 0, ours.output
    assert report["offloaded_bytes"] == 0
    assert STREAMS not in ours.output
    # The steps that ran a checked plan: less than what the plain ones took.
    assert report["steady_peak_bytes"] < plain.result["peak"]


# Whatever a plan prefers, the first step spills to pinned memory what it cannot hold.
@pytest.mark.parametrize("name", ["mlp_with_dropout", "transformer_in_bf16"])
def test_values_go_to_pinned_memory(name: str, tmp_path: Path) -> None:
    _, ours = within(name, 0.6, tmp_path, EBBTIDE_OFFLOAD="auto")
    assert ours.report["spilled_bytes"] + ours.report["offloaded_bytes"] > 0, ours.output


# The budget holds all of it, since all of it is kept.
def test_two_streams_keep_everything(tmp_path: Path) -> None:
    _, ours = within("two_streams", 1.3, tmp_path)
    assert ours.output.count(STREAMS) == 1, ours.output
    assert ours.report["recomputed_ops"] == 0


def test_without_a_budget_nothing_is_dropped(tmp_path: Path) -> None:
    plain = run("mlp_with_dropout", {}, tmp_path / "plain")
    ours = run("mlp_with_dropout", {"EBBTIDE": "1"}, tmp_path / "ours")
    assert ours.bits() == plain.bits()
    assert ours.report is not None, ours.output
    assert ours.report["budget_bytes"] is None
    assert ours.report["recomputed_ops"] == 0
    # Of the GPU, not of the host: each of its 8 layers saves activations of 32 MiB.
    assert ours.report["activation_bytes"] >= 8 * 32 << 20
    assert ours.report["others_bytes"] > 0
    named = re.findall(r"EBBTIDE_BUDGET=(\d+)MiB", ours.output)
    assert named, ours.output
    # A budget counts what others use of the GPU, and so does one that is named.
    assert int(named[0]) << 20 > ours.report["others_bytes"] + ours.report["base_bytes"]


# Less than the context of CUDA alone takes: refused with a budget that trains.
@pytest.mark.parametrize("name", ["mlp_with_dropout", "transformer_with_dropout"])
def test_the_budget_that_a_refusal_names_trains(name: str, tmp_path: Path) -> None:
    plain = run(name, {}, tmp_path / "plain")
    refused, _, _ = start(name, {"EBBTIDE_BUDGET": "100MiB"}, tmp_path / "refused")
    assert refused.returncode != 0
    text = refused.stdout
    assert text.count("training goes on over the budget for at most 3 more steps") == 1, text
    assert text.count("CUDA out of memory.") == 1, text
    named = re.search(r"Smallest budget: EBBTIDE_BUDGET=(\d+MiB)\.", text)
    assert named, text
    ours = run(name, {"EBBTIDE_BUDGET": named[1]}, tmp_path / "named")
    assert ours.bits() == plain.bits(), ours.output
    assert ours.report["budget_violations"] == 0, ours.output


def test_a_budget_of_what_a_step_takes_counts_what_others_use(tmp_path: Path) -> None:
    plain = run("mlp_with_dropout", {}, tmp_path / "plain")
    ours = run("mlp_with_dropout", {"EBBTIDE_BUDGET": "-50%"}, tmp_path / "ours")
    assert ours.bits() == plain.bits(), ours.output
    report = ours.report
    assert report["budget_violations"] == 0, ours.output
    assert report["budget_bytes"] >= report["plain_peak_bytes"] - report["activation_bytes"] // 2
    assert report["spilled_bytes"] + report["recomputed_ops"] > 0, ours.output
