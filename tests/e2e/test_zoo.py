"""Programs as people write them: the same bits under a budget, and the budget holds."""

from pathlib import Path

import pytest
import zoo
from conftest import measure
from processes import Finished, run, script


def training(names: list[str], ranks: int):
    return script("tests/e2e/zoo_train.py", *names, ranks=ranks)


def without_times(done: Finished) -> list[dict]:
    """By rank and program, all that was computed."""
    return [
        {name: {k: v for k, v in one.items() if k != "step_seconds"} for name, one in rank.items()}
        for rank in done.results
    ]


@pytest.mark.parametrize("name", zoo.programs())
def test_same_bits_within_the_budget(name: str, tmp_path: Path) -> None:
    program = zoo.program(name)
    baseline = measure(training([name], program.ranks), tmp_path)
    expected = without_times(baseline.plain)
    assert without_times(baseline.measured) == expected
    variables = {"EBBTIDE_BUDGET": str(baseline.budget(program.fraction))}
    done = run(baseline.program, variables, tmp_path / "budget").succeeded()
    assert without_times(done) == expected
    assert len(done.reports) == program.ranks, done.output
    for report in done.reports:
        assert not report["pass_through"], done.output
        assert report["budget_violations"] == 0, done.output
        planned = report["recomputed_ops"] + report["decoded_values"] > 0
        assert planned != bool(program.kept), done.output
