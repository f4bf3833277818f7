"""Turning a run whose steps are of two programs in turn: a large one, and one a third of it."""

import json
from pathlib import Path

import pytest
from conftest import MIB, Baseline, measure
from processes import Program, run, script
from test_control import budget_at, status_at

STEPS = 22


def alternating(asks: Path | None = None) -> Program:
    more = ("--asks", str(asks)) if asks else ()
    size = ("--steps", str(STEPS), "--smaller-every", "2")
    return script("tests/e2e/controlled_train.py", *size, *more)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(alternating(), tmp_path_factory.mktemp("alternating"))


def test_a_budget_is_for_both_programs(
    baseline: Baseline,
    sockets: Path,
    tmp_path: Path,
) -> None:
    """The large one follows its plan unrecorded, while the small one, which fits, is recorded."""
    asks = [
        {"step": 9, "method": "GET", "path": "/v1/curve"},
        budget_at(10, 1 * MIB),
        budget_at(10, "smallest"),
        status_at(15),
        budget_at(15, baseline.budget(0.3)),
        status_at(20),
        {"step": 20, "method": "GET", "path": "/v1/curve"},
    ]
    (tmp_path / "asks.json").write_text(json.dumps(asks))
    variables = {
        "EBBTIDE_BUDGET": str(baseline.budget(0.4)),
        "EBBTIDE_SOCKET_DIR": str(sockets),
        "EBBTIDE_JOB_ID": "job",
    }
    program = alternating(tmp_path / "asks.json")
    done = run(program, variables, tmp_path / "run").succeeded()
    assert done.results == baseline.plain.results
    answers = json.loads((tmp_path / "run" / "answers.json").read_text())
    first, refused, held, under_it, roomy, later, _ = (one["body"] for one in answers)
    assert first["state"] == "computing"
    smallest = refused["smallest_feasible_budget_bytes"]
    assert held["budget_bytes"] == smallest + 2 * MIB, held  # as controlled_train.py asks
    for status, budget in ((under_it, smallest + 2 * MIB), (later, baseline.budget(0.3))):
        assert status["memory"]["budget_bytes"] == budget, done.output
        assert 0 < status["memory"]["peak_mapped_bytes"] <= budget
        assert status["totals"]["budget_violations"] == 0
    assert roomy["overhead_ratio"] > 0 and roomy["step_seconds"] > 0
    assert baseline.budget(0.6) < roomy["predicted_peak_bytes"] <= baseline.budget(0.3)


def test_the_curve_is_of_the_large_program(
    baseline: Baseline,
    sockets: Path,
    tmp_path: Path,
) -> None:
    """And becomes whole while both are recorded in turn, looked at before each step."""
    asks = [{"step": step, "method": "GET", "path": "/v1/curve"} for step in range(4, STEPS)]
    (tmp_path / "asks.json").write_text(json.dumps(asks))
    variables = {"EBBTIDE": "1", "EBBTIDE_SOCKET_DIR": str(sockets), "EBBTIDE_JOB_ID": "job"}
    variables["EBBTIDE_BUDGET"] = str(baseline.budget(0.4))
    run(alternating(tmp_path / "asks.json"), variables, tmp_path / "run").succeeded()
    answers = json.loads((tmp_path / "run" / "answers.json").read_text())
    whole = [one["body"] for one in answers if one["body"]["state"] == "ready"]
    assert whole, answers
    plain_peak = baseline.measured.reports[0]["plain_peak_bytes"]
    for curve in whole:
        largest = curve["points"][-1]["predicted_peak_bytes"]
        assert abs(largest - plain_peak) < 0.03 * plain_peak, curve
