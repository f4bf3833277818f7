"""The examples, made small: within the budget, and bit for bit as stock torch trains them."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from conftest import Baseline, by_rank, measure
from processes import LIBRARIES, PLANNER, ROOT, Finished, Program, code, run, settled, torchrun
from tiers import nightly_but

GPT = settled(
    "examples/train_gpt.py",
    *"--layers 3 --width 128 --heads 4 --length 128 --batch 4 --steps 8".split(),
    ranks=2,
)
# 100 images in batches of 32: each epoch is 32 + 32 + 32 + 4, then an evaluation under no_grad.
CNN = settled(
    "examples/train_cnn.py", *"--layers 6 --width 24 --batch 32 --images 100 --steps 12".split()
)
PIPELINE = "--layers 4 --width 128 --heads 4 --length 128 --batch 4 --steps 8".split()
ONE_FORWARD_ONE_BACKWARD = settled("examples/train_pipeline.py", *PIPELINE, ranks=2)
ZERO_BUBBLE = settled("examples/train_pipeline.py", *PIPELINE, "--schedule", "zero-bubble", ranks=2)
FSDP = settled(
    "examples/train_fsdp.py",
    *"--layers 4 --width 128 --heads 4 --length 128 --batch 6 --steps 8".split(),
    ranks=2,
)
# C++ programs do not wait for the search for a better plan, which takes seconds with auto.
CPP_STEPS = "32" if PLANNER == "auto" else "20"
CPP = Program(
    (
        str(LIBRARIES.parent / "bin" / "train_cpp"),
        *"--layers 2 --width 24 --batch 64 --steps".split(),
        CPP_STEPS,
    ),
    preload=True,
)


CPP_DDP = Program(
    (
        *torchrun(2, "--no-python"),
        str(LIBRARIES.parent / "bin" / "train_ddp"),
        *"--layers 2 --width 24 --batch 64 --steps".split(),
        CPP_STEPS,
    ),
    ranks=2,
    preload=True,
)
EXAMPLES = {
    "gpt_two_ranks": GPT,
    "pipeline": ONE_FORWARD_ONE_BACKWARD,
    "pipeline_zero_bubble": ZERO_BUBBLE,
    "fsdp": FSDP,
    "cnn": CNN,
    "cpp": CPP,
    "cpp_two_ranks": CPP_DDP,
}
EVERY_TIME = {"gpt_two_ranks", "pipeline", "fsdp", "cpp"}


@dataclass(frozen=True)
class Comparison:
    baseline: Baseline
    budgets: list[int]  # by rank
    budgeted: Finished


# Over 20 s: an example trains three times in full, as the README says.
@pytest.fixture(scope="module", params=nightly_but(EVERY_TIME, EXAMPLES))
def comparison(request, tmp_path_factory) -> Comparison:
    folder = tmp_path_factory.mktemp("example")
    baseline = measure(EXAMPLES[request.param], folder)
    budgets = baseline.rank_budgets(0.5)
    variables = {"EBBTIDE_BUDGET": by_rank(budgets), "EBBTIDE_LOG": "debug"}
    budgeted = run(baseline.program, variables, folder / "budgeted").succeeded()
    assert len(budgeted.reports) == baseline.program.ranks, budgeted.output
    return Comparison(baseline, budgets, budgeted)


def test_losses_and_parameters_are_bit_identical(comparison: Comparison) -> None:
    assert len(comparison.baseline.plain.results) == comparison.baseline.program.ranks
    assert comparison.budgeted.results == comparison.baseline.plain.results


def test_measuring_changes_nothing(comparison: Comparison) -> None:
    assert comparison.baseline.measured.results == comparison.baseline.plain.results
    for report in comparison.baseline.measured.reports:
        assert report["mode"] == "measure"
        assert report["recomputed_ops"] == 0
        assert report["spilled_bytes"] == 0


def test_budget_holds_in_every_step(comparison: Comparison) -> None:
    for budget, report in zip(comparison.budgets, comparison.budgeted.reports, strict=True):
        assert report["mode"] == "budget"
        assert report["budget_bytes"] == budget
        assert report["budget_violations"] == 0
        assert report["first_step_peak_bytes"] <= budget
        assert report["peak_bytes"] <= report["mapped_peak_bytes"] <= budget


def test_recomputes_by_a_plan(comparison: Comparison) -> None:
    for report in comparison.budgeted.reports:
        assert not report["pass_through"], comparison.budgeted.output
        assert report["plan"] is not None
        assert sum(report["audited"].values()) > 0
        # The verification step and at least one step more went by the plan, and found nothing
        # against it.
        assert report["recomputed_ops"] >= 2 * report["plan"]["recomputed_ops"] > 0
        assert not report["rejected"]


def test_prediction_is_within_five_percent(comparison: Comparison) -> None:
    # Of graphs that are kept between two backward passes, too.
    most = 0.03 if comparison.baseline.program is ZERO_BUBBLE else 0.05
    for report in comparison.budgeted.reports:
        real = report["steady_peak_bytes"]
        assert abs(report["predicted_peak_bytes"] - real) <= most * real


def test_nothing_is_spilled_once_the_plan_is_in_use(comparison: Comparison) -> None:
    for rank in range(comparison.baseline.program.ranks):
        # A verification step spills the originals. Where planning takes long the last step may be
        # one.
        said = rf"\[ebbtide rank {rank}\] debug: step \d+: .*, spilled (\d+),.* plan followed"
        spilled = re.findall(said, comparison.budgeted.output)
        assert spilled, comparison.budgeted.output
        assert int(spilled[-1]) == 0, comparison.budgeted.output


def test_one_banner_line_a_rank(comparison: Comparison) -> None:
    lines = comparison.budgeted.output.splitlines()
    for rank in range(comparison.baseline.program.ranks):
        banners = [line for line in lines if f"[ebbtide rank {rank}]" in line and "(torch " in line]
        assert len(banners) == 1, comparison.budgeted.output


# --- A plan at once


# Over a minute on busy cores: its steps are of 0.5 s, and a search lasts seconds.
def test_a_plan_that_is_found_at_once_changes_no_number(tmp_path: Path) -> None:
    """The second step's plan is the first one's, the search for a better one begins with the
    third step; whichever it takes, one line tells of it."""
    steps = "--layers 4 --width 128 --heads 4 --length 128 --batch 4 --steps 12".split()
    baseline = measure(settled("examples/train_gpt.py", *steps), tmp_path)
    variables = {"EBBTIDE_BUDGET": str(baseline.budget(0.5)), "EBBTIDE_PLANNER": "auto"}
    done = run(baseline.program, variables, tmp_path / "budgeted").succeeded()
    assert done.results == baseline.plain.results
    assert done.report["first_planned_step"] <= 3, done.output
    assert done.report["recomputed_ops"] > 0 and not done.report["rejected"]
    assert done.output.count("plan by ") == 1, done.output


# --- Job files ------------------------------------------------------------------------------------

LAUNCH = ROOT / "examples" / "launch"


def containers() -> list[dict]:
    """Of the PyTorchJob, one for each kind of replica."""
    job = yaml.safe_load((LAUNCH / "pytorchjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert replicas.keys() == {"Master", "Worker"}
    pods = [replica["template"]["spec"] for replica in replicas.values()]
    return [container for pod in pods for container in pod["containers"]]


def of_slurm() -> list[dict[str, str]]:
    return [dict(re.findall(r'^export (\w+)="(.*)"$', (LAUNCH / "slurm.sbatch").read_text(), re.M))]


def of_kubernetes() -> list[dict[str, str]]:
    named = [container["env"] for container in containers()]
    return [{one["name"]: one["value"] for one in variables} for variables in named]


@pytest.mark.parametrize("variables", [*of_slurm(), *of_kubernetes()])
def test_the_variables_of_job_files_are_accepted(variables: dict[str, str], tmp_path) -> None:
    assert {name.partition("_")[0] for name in variables} == {"EBBTIDE"}
    program = code("import torch; torch.nn.Linear(1, 1)(torch.ones(1)).backward()")
    done = run(program, variables | {"RANK": "8"}, tmp_path, out=False).succeeded()
    assert done.said(r"\[ebbtide rank 8\] .*: budget "), done.output


def test_the_training_operator_finds_its_container() -> None:
    # It adds its variables to the container of this name, and takes the count as a text.
    assert {container["name"] for container in containers()} == {"pytorch"}
    job = yaml.safe_load((LAUNCH / "pytorchjob.yaml").read_text())
    assert job["spec"]["nprocPerNode"] == str(
        containers()[0]["resources"]["limits"]["nvidia.com/gpu"]
    )
