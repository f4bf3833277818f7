"""Pipelines in which a rank is unlike the others, fails, or dies: real processes over Gloo."""

import re
import resource
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import MIB, Baseline, by_rank, measure
from processes import (
    PYTHON,
    ROOT,
    TIMEOUT_SECONDS,
    Finished,
    Program,
    environment,
    free_port,
    run,
    script,
    settled,
    torchrun,
)

EXAMPLE = str(ROOT / "examples" / "train_pipeline.py")
SIZE = "--layers 4 --width 128 --heads 4 --length 128 --batch 4".split()
PIPELINE = settled(EXAMPLE, *SIZE, "--steps", "8", ranks=2)


def faulty(fault: str, *launcher: str) -> Program:
    """The same training, but rank 1 is not as the other one."""
    script = str(ROOT / "tests" / "e2e" / "faulty.py")
    command = (*torchrun(2, *launcher), script, fault, "1", "3", EXAMPLE, *SIZE, "--steps", "8")
    return Program(command, ranks=2)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(PIPELINE, tmp_path_factory.mktemp("pipeline"))


def half(baseline: Baseline) -> str:
    """A budget for each rank, with room for half of its activations."""
    return by_rank(baseline.rank_budgets(0.5))


def within_budget(done: Finished) -> None:
    done.succeeded()
    for report in done.reports:
        assert report["mapped_peak_bytes"] <= report["budget_bytes"]
        assert not report["pass_through"], done.output


# --- Ranks unlike each other ----------------------------------------------------------------------


@pytest.mark.nightly
def test_a_rank_without_a_budget_is_measured(baseline: Baseline, tmp_path: Path) -> None:
    budget = baseline.rank_budgets(0.6)[0]
    done = run(PIPELINE, {"EBBTIDE_BUDGET": f"rank0={budget}"}, tmp_path).succeeded()
    assert done.results == baseline.plain.results
    first, second = done.reports
    assert (first["mode"], second["mode"]) == ("budget", "measure")
    assert first["mapped_peak_bytes"] <= budget
    assert first["recomputed_ops"] > 0
    assert second["recomputed_ops"] == 0


@pytest.mark.nightly
def test_a_rank_on_another_code_path(baseline: Baseline, tmp_path: Path) -> None:
    program = faulty("detour")
    plain = run(program, {}, tmp_path / "plain").succeeded()
    assert plain.results != baseline.plain.results  # it does another thing
    done = run(program, {"EBBTIDE_BUDGET": half(baseline)}, tmp_path / "budgeted")
    within_budget(done)
    assert done.results == plain.results
    assert all(report["recomputed_ops"] > 0 for report in done.reports)


# Over 20 s: two jobs of two ranks, the second with the budget that the first one named.
def test_a_stage_that_cannot_fit_is_named_with_what_it_needs(
    baseline: Baseline, tmp_path: Path
) -> None:
    # Rank 1 gets what its parameters and their state take, and nothing for the step.
    roomy = baseline.budget(0)
    tight = baseline.measured.reports[1]["base_bytes"]
    budgets = {"EBBTIDE_BUDGET": by_rank([roomy, tight])}
    # In each step it waits 5 s for advice, at most. Advice comes before so many steps have ended.
    longer = settled(EXAMPLE, *SIZE, "--steps", "40", ranks=2)
    done = run(longer, budgets, tmp_path / "tight")
    assert done.status != 0
    stated = re.search(
        r"too small for this program[\s\S]*?Smallest budget: EBBTIDE_BUDGET=(\w+)", done.output
    )
    assert stated, done.output
    # It stops once rank 0 has told it who could help.
    helped = re.findall(
        r"\[ebbtide rank (\d)\][^\n]* this rank needs (\S+) MiB, its budget is (\S+) MiB; "
        r"rank (\d) could take a layer: it leaves at least (\S+) MiB free",
        done.output,
    )
    assert [(rank, taker) for rank, *_, taker, _ in helped] == [("1", "0")], done.output
    needed, budget, spare = (float(helped[0][i]) for i in (1, 2, 4))
    assert budget < needed < roomy / MIB and 0 < spare < roomy / MIB
    assert done.said(
        r"OutOfMemoryError: [^\n]*too small[\s\S]* In the pipeline rank 0 could take a"
    )

    again = {"EBBTIDE_BUDGET": f"rank0={roomy},rank1={stated[1]}"}
    done = run(PIPELINE, again, tmp_path / "stated")
    within_budget(done)
    assert done.results == baseline.plain.results


@pytest.mark.nightly
@pytest.mark.parametrize("budgets", ["rank1={},stage0={}", "default={},stage0={}"])
def test_such_a_stage_is_told_who_could_help_where_others_learn_theirs_first(
    baseline: Baseline, tmp_path: Path, budgets: str
) -> None:
    # The first round tells rank 0 its stage, and has no advice for rank 1: the second one does.
    tight = baseline.measured.reports[1]["base_bytes"]
    budget = budgets.format(tight, baseline.budget(0))
    longer = settled(EXAMPLE, *SIZE, "--steps", "16", ranks=2)
    done = run(longer, {"EBBTIDE_BUDGET": budget}, tmp_path)
    assert done.status != 0, done.output
    told = r"OutOfMemoryError: [^\n]*too small[\s\S]* In the pipeline rank 0 could take a"
    assert done.said(told), done.output


@pytest.mark.nightly  # of four: test_agreement_faults.py
def test_eight_ranks_on_the_cores_that_are_there(tmp_path: Path) -> None:
    size = "--layers 8 --width 64 --heads 2 --length 128 --batch 2 --microbatches 8 --steps 6"
    eight = measure(settled(EXAMPLE, *size.split(), ranks=8), tmp_path)
    agreeing = script("tests/e2e/agreed.py", "1", EXAMPLE, *size.split(), ranks=8)
    variables = {"EBBTIDE_BUDGET": half(eight), "EBBTIDE_LOG": "debug"}
    done = run(agreeing, variables, tmp_path / "budgeted")
    within_budget(done)
    assert done.results == eight.plain.results
    assert [report["rank"] for report in done.reports] == list(range(8))
    # And they agreed, on a plan or on none for a reason that each of them has.
    came_to = r"rank (\d)\] debug: (?:the job's plan of round 1|round 1 came to no plan: \S)"
    assert sorted(re.findall(came_to, done.output)) == [str(rank) for rank in range(8)], done.output


@pytest.mark.nightly  # twice as many steps
def test_a_process_group_that_is_formed_again_in_one_process(
    baseline: Baseline, tmp_path: Path
) -> None:
    # The second training is the first one once more: the same program, and its plan.
    program = script("tests/e2e/agreed.py", "2", EXAMPLE, *SIZE, "--steps", "8", ranks=2)
    variables = {"EBBTIDE_BUDGET": half(baseline), "EBBTIDE_LOG": "debug"}
    done = run(program, variables, tmp_path)
    within_budget(done)
    assert done.results == baseline.plain.results
    complaints = r"rank \d\] (warning|no plan for the whole job|the job's store)"
    assert not done.said(complaints), done.output
    for report in done.reports:
        assert report["steps"] == 16
        assert report["plan"], done.output
        replays = re.findall(
            rf"rank {report['rank']}\] debug: step (\d+): .* recomputed (\d+),", done.output
        )
        assert len(replays) == 16 and all(int(ops) > 0 for _, ops in replays[8:]), done.output


# --- Ranks that fail ------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_restarted_job_trains_within_its_budget(baseline: Baseline, tmp_path: Path) -> None:
    """torchrun forms the job anew; no state is loaded, so the second life is a whole training."""
    program = faulty("raise-once", "--max-restarts", "1")
    variables = {
        "EBBTIDE_BUDGET": half(baseline),
        # Else torch's second life finds addresses of the first one in the store, and may hang.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    done = run(program, variables, tmp_path)
    within_budget(done)
    assert done.said("ValueError: deliberate")
    for rank in range(2):
        lives = re.findall(rf"\[ebbtide rank {rank}\] \S+ \(torch ", done.output)
        assert len(lives) == 2, done.output
    assert done.results == baseline.plain.results
    assert all(report["steps"] == 8 for report in done.reports)


@dataclass
class Rank:
    """A process of a job that no launcher watches over."""

    process: subprocess.Popen
    output: str = ""

    def read_until(self, text: str) -> None:
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return
        raise AssertionError(f"it ended before {text!r}\n{self.output}")

    def end(self) -> int:
        rest, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        self.output += rest
        return self.process.returncode


def leave_cores() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def start_ranks(variables: dict[str, str], folder: Path) -> list[Rank]:
    program = Program((PYTHON, EXAMPLE, *SIZE, "--steps", "1000"), ranks=2)
    shared = environment(program, variables, folder)
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port(3) + 2)}
    shared |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    return [
        Rank(
            subprocess.Popen(
                program.command,
                env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=leave_cores,
            )
        )
        for rank in range(2)
    ]


@pytest.mark.nightly  # the whole of the job, twice
def test_a_rank_outlives_one_that_was_killed_as_it_does_without_us(
    baseline: Baseline, tmp_path: Path
) -> None:
    first, last = ranks = start_ranks({"EBBTIDE_BUDGET": half(baseline)}, tmp_path)
    hung = [threading.Timer(TIMEOUT_SECONDS, rank.process.kill) for rank in ranks]
    for timer in hung:
        timer.start()
    try:
        last.read_until("step  10 ")  # in the middle of its next step it is killed
        last.process.kill()
        assert last.end() == -9
        # An exception of torch's ends the other one: no signal, no error of ours.
        assert first.end() == 1, first.output
    finally:
        for timer, rank in zip(hung, ranks, strict=True):
            timer.cancel()
            rank.process.kill()
            rank.process.wait()
    error = first.output[first.output.index("Traceback") :]
    assert re.search(r"RuntimeError: .*gloo", error, re.M), first.output
    # A plan may be made yet while torch tells of its error.
    lines = [line for line in error.splitlines() if " plan by " not in line]
    ours = [line for line in lines if re.search(r"\[ebbtide|libebbtide|ebbtide::", line)]
    assert len(ours) == 1 and "ended after" in ours[0], first.output
    assert not list(tmp_path.glob("core*"))
