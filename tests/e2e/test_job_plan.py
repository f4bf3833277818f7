"""The ranks of a pipeline agree on a plan over the job's own store: real processes over Gloo."""

import os
import re
from pathlib import Path

import pytest
from conftest import Baseline, by_rank, measure
from processes import ROOT, Finished, Program, run, script, settled

EXAMPLE = str(ROOT / "examples" / "train_pipeline.py")
SIZE = "--layers 4 --width 128 --heads 4 --length 128 --batch 4 --steps 60".split()
PIPELINE = settled(EXAMPLE, *SIZE, ranks=2)
# The same. Under a budget each rank also waits until the first round has an outcome.
AGREEING = script("tests/e2e/agreed.py", "1", EXAMPLE, *SIZE, ranks=2)
FEW_STEPS = [*SIZE[:-1], "24"]
USED = r"\[ebbtide rank (\d)\] debug: the job's plan of round 1 is used from step (\d+) on"
OWN = r"\[ebbtide rank (\d)\] debug: round 1 came to no plan: the ranks' own plans make"


# Over 20 s, as most tests here: two ranks train enough steps to agree on a plan and to use it.
@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(PIPELINE, tmp_path_factory.mktemp("pipeline"))


def train(program: Program, budget: str, folder: Path) -> Finished:
    variables = {"EBBTIDE_BUDGET": budget, "EBBTIDE_LOG": "debug"}
    return run(program, variables, folder).succeeded()


@pytest.mark.skipif(
    os.cpu_count() < 2, reason="on one processor nothing is hidden: ranks keep their own plans"
)
def test_all_ranks_switch_at_one_step_or_none_does(tmp_path: Path) -> None:
    baseline = measure(settled(EXAMPLE, *FEW_STEPS, ranks=2), tmp_path)
    agreeing = script("tests/e2e/agreed.py", "1", EXAMPLE, *FEW_STEPS, ranks=2)
    done = train(agreeing, by_rank(baseline.rank_budgets(0.5)), tmp_path / "budgeted")
    # Which plan is quicker is measured: on a busy machine it may be the ranks' own. That all switch
    # is the nightly test's below, whose plan for the job is far quicker.
    used, own = re.findall(USED, done.output), re.findall(OWN, done.output)
    assert sorted([rank for rank, _ in used] or own) == ["0", "1"], done.output
    assert len({step for _, step in used}) == (0 if own else 1), done.output
    assert done.results == baseline.plain.results
    for report in done.reports:
        assert report["mapped_peak_bytes"] <= report["budget_bytes"]
        assert report["recomputed_ops"] > 0


def replays_by_step(done: Finished, rank: int) -> dict[int, int]:
    found = re.findall(rf"rank {rank}\] debug: step (\d+): .* recomputed (\d+),", done.output)
    return {int(step): int(ops) for step, ops in found}


@pytest.mark.nightly  # which plan is quicker is measured: on a busy machine it may be another
def test_a_schedule_of_the_jobs_is_the_one_that_runs(baseline: Baseline, tmp_path: Path) -> None:
    # Chen's planner knows one trade: nearly a whole forward pass more, for each microbatch. The job
    # has the choice between that and everything kept, and room for most of the microbatches.
    variables = {
        "EBBTIDE_BUDGET": by_rank(baseline.rank_budgets(0.25)),
        "EBBTIDE_PLANNER": "chen",
        "EBBTIDE_LOG": "debug",
    }
    done = run(AGREEING, variables, tmp_path).succeeded()
    used = re.findall(USED, done.output)
    assert sorted(rank for rank, _ in used) == ["0", "1"], done.output
    assert len({step for _, step in used}) == 1
    first = int(used[0][1])
    assert done.results == baseline.plain.results
    for rank, report in enumerate(done.reports):
        changes = rf"rank {rank}\] debug: a plan for the job [^\n]* this rank changes its plan"
        assert done.said(changes), done.output
        own = re.findall(rf"rank {rank}\] .*plan by chen in .*: (\d+) ops recomputed", done.output)
        ran = replays_by_step(done, rank)
        assert report["plan"]["planner"].endswith("job")
        assert ran[first - 1] == int(own[-1])  # its own plan, up to the step that all agreed on
        assert ran[max(ran)] == report["plan"]["recomputed_ops"] < int(own[-1])
        assert report["mapped_peak_bytes"] <= report["budget_bytes"]


def check_budgets(done: Finished, baseline: Baseline, budgets: list[int]) -> None:
    assert done.results == baseline.plain.results
    for report, budget in zip(done.reports, budgets, strict=True):
        assert report["budget_bytes"] == budget
        assert report["mapped_peak_bytes"] <= budget  # since it is in force
        assert report["recomputed_ops"] > 0, done.output


def check_warnings(done: Finished, stage: str, ranks: str) -> None:
    """Rank 0 says once what of EBBTIDE_BUDGET is for nothing in a job of two ranks and stages."""
    line = r"rank (\d)\] warning: EBBTIDE_BUDGET: (.*) for nothing that is there: (.*) \[EB30\]"
    assert sorted(re.findall(line, done.output)) == [
        ("0", ranks, "the job has ranks 0-1"),
        ("0", stage, "the job has stages 0-1"),
    ], done.output


@pytest.mark.nightly  # 60 steps; the next one stands for it
def test_budgets_by_stage_hold_once_messages_tell_the_stages(
    baseline: Baseline, tmp_path: Path
) -> None:
    # 1F1B names no stages: without a default both measure until they know.
    first, last = baseline.rank_budgets(0.5)
    budget = f"stage0-1={last},stage0={first},stage1-7={last},stage2=1GiB,rank2-3=1GiB,rank9=1GiB"
    done = train(PIPELINE, budget, tmp_path)
    check_warnings(done, "stage2=1GiB is", "rank2-3=1GiB, rank9=1GiB are")
    for rank, stated in ((0, first), (1, last)):
        line = rf"rank {rank}\] this rank runs stage {rank}: its budget is ([^,]+), before none"
        assert len(re.findall(line, done.output)) == 1, done.output
        assert done.reports[rank]["stages"] == [rank]
        assert stated == done.reports[rank]["budget_bytes"]
    check_budgets(done, baseline, [first, last])
    # And then the ranks agree on a plan under these budgets.
    used = re.findall(USED.replace("round 1", "round 2"), done.output)
    assert sorted(rank for rank, _ in used) == ["0", "1"] or done.said(
        r"round 2 came to no plan: the ranks' own plans make the quickest step"
    ), done.output


def test_budgets_by_stage_hold_from_the_second_step_where_they_are_named(
    tmp_path: Path,
) -> None:
    size = [*SIZE[:-1], "8", "--schedule", "interleaved"]
    program = settled(EXAMPLE, *size, ranks=2)
    # Rank 0 knows the job's stages once it has the reports of both.
    agreeing = script("tests/e2e/agreed.py", "1", EXAMPLE, *size, ranks=2)
    measured = run(program, {"EBBTIDE": "1"}, tmp_path / "measured").succeeded()
    baseline = Baseline(program, measured, measured)
    first, last = baseline.rank_budgets(0.5)
    # Rank 0 runs stages 0 and 2: of two entries the last one holds. Rank 1 has its own.
    budget = f"default={2 * first},stage0={3 * first},stage2={first},rank1={last},stage1=1GiB"
    budget += ",stage4=1GiB"
    done = train(agreeing, budget, tmp_path / "budgeted")
    assert done.said(r"rank 0\] this rank runs stages 0, 2: its budget is .* from step 2 on"), (
        done.output
    )
    assert done.said(r"rank 0\] warning: .*: stage4=1GiB is .* the job has stages 0-3"), done.output
    assert done.reports[0]["stages"] == [0, 2]
    assert done.reports[1]["stages"] is None  # nothing depends on them
    check_budgets(done, baseline, [first, last])


@pytest.mark.nightly  # test_pipeline_faults.py has one
def test_a_rank_without_a_budget_takes_part(baseline: Baseline, tmp_path: Path) -> None:
    done = train(PIPELINE, f"rank0={baseline.rank_budgets(0.5)[0]}", tmp_path)
    assert not done.said(r"rank \d\] no plan for the whole job"), done.output
    assert done.said(r"rank 1\] debug: .*(used from step|came to no plan)"), done.output
    assert done.results == baseline.plain.results


@pytest.mark.nightly
def test_ranks_that_fit_agree_on_nothing_and_say_nothing(
    baseline: Baseline, tmp_path: Path
) -> None:
    done = train(PIPELINE, "8GiB", tmp_path)
    assert not re.findall(USED, done.output)
    assert not done.said(r"rank \d\] no plan for the whole job"), done.output
    assert done.results == baseline.plain.results
