"""Stages of a pipeline that wait for each other: what they replay meanwhile changes no number."""

from pathlib import Path

import pytest
import zoo
from conftest import measure
from processes import run, script
from test_zoo import without_times

# Whose first rank is known to wait for gradients with room in its budget.
ALWAYS = {"gpipe", "one_forward_one_backward"}


# Over 20 s: a pipeline of several ranks trains four times.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpipe", marks=pytest.mark.nightly),
        "one_forward_one_backward",
        pytest.param("interleaved", marks=pytest.mark.nightly),
        pytest.param("interleaved_zero_bubble", marks=pytest.mark.nightly),
    ],
)
def test_same_bits_with_replays_ahead_of_messages(name: str, tmp_path: Path) -> None:
    full_name = f"pipeline_programs.{name}"
    program = zoo.program(full_name)
    training = script("tests/e2e/zoo_train.py", full_name, ranks=program.ranks)
    baseline = measure(training, tmp_path)
    expected = without_times(baseline.plain)
    for ahead in ("auto", "never"):
        variables = {"EBBTIDE_BUDGET": str(baseline.budget(0.5)), "EBBTIDE_REPLAY_AHEAD": ahead}
        done = run(training, variables, tmp_path / ahead).succeeded()
        assert without_times(done) == expected
        counts = [report["replays_ahead"] for report in done.reports]
        assert all(report["rejected"] == {} for report in done.reports), done.output
        assert ahead == "auto" or counts == [0, 0]
        if ahead == "auto" and name in ALWAYS:
            assert counts[0] > 0, done.output
            assert done.reports[0]["ahead_seconds"] > 0
        for report in done.reports:
            assert report["replays_ahead"] <= report["recomputed_ops"]
            assert not report["pass_through"], done.output
