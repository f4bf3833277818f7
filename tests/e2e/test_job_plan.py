"""The ranks of a pipeline agree on a plan over the job's own store: real processes over Gloo."""

import os
import re
from pathlib import Path

import pytest
from conftest import Baseline, by_rank, measure
from processes import ROOT, Finished, Program, run, settled

EXAMPLE = str(ROOT / "examples" / "train_pipeline.py")
SIZE = "--layers 4 --width 128 --heads 4 --length 128 --batch 4 --steps 60".split()
PIPELINE = settled(EXAMPLE, *SIZE, ranks=2)
USED = r"\[ebbtide rank (\d)\] debug: the job's plan of round 1 is used from step (\d+) on"


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(PIPELINE, tmp_path_factory.mktemp("pipeline"))


def train(program: Program, budget: str, folder: Path) -> Finished:
    variables = {"EBBTIDE_BUDGET": budget, "EBBTIDE_LOG": "debug"}
    return run(program, variables, folder).succeeded()


@pytest.mark.skipif(
    os.cpu_count() < 2, reason="on one processor nothing is hidden: ranks keep their own plans"
)
def test_all_ranks_use_one_plan_from_the_same_step(baseline: Baseline, tmp_path: Path) -> None:
    done = train(PIPELINE, by_rank(baseline.rank_budgets(0.5)), tmp_path)
    used = re.findall(USED, done.output)
    assert sorted(rank for rank, _ in used) == ["0", "1"], done.output
    assert len({step for _, step in used}) == 1
    assert done.results == baseline.plain.results
    for report in done.reports:
        assert report["mapped_peak_bytes"] <= report["budget_bytes"]
        assert report["recomputed_ops"] > 0


def test_a_rank_without_a_budget_takes_part(baseline: Baseline, tmp_path: Path) -> None:
    done = train(PIPELINE, f"rank0={baseline.rank_budgets(0.5)[0]}", tmp_path)
    assert not done.said(r"rank \d\] no plan for the whole job"), done.output
    assert done.said(r"rank 1\] debug: .*(used from step|came to no plan)"), done.output
    assert done.results == baseline.plain.results


def test_ranks_that_fit_agree_on_nothing_and_say_nothing(
    baseline: Baseline, tmp_path: Path
) -> None:
    done = train(PIPELINE, "8GiB", tmp_path)
    assert not re.findall(USED, done.output)
    assert not done.said(r"rank \d\] no plan for the whole job"), done.output
    assert done.results == baseline.plain.results
