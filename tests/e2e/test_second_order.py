"""Ebbtide spills what a backward pass saves, and the bits are plain's."""

from pathlib import Path

import pytest
from processes import run, script
from second_order import PROGRAMS
from tiers import nightly_but

# The budget, as a share of the peak with everything kept.
SHARES = {
    "physics": 0.6,
    "physics_by_lbfgs": 0.75,
    "penalty": 0.6,
    "meta": 0.6,
    "curvature": 0.75,
    "reentrant": 0.8,
    "reentrant_views": 0.9,
    "hooked": 1.25,  # nothing of it can go
    "hooked_in_another_mode": 1.25,
}


@pytest.mark.parametrize(
    "name", nightly_but({"penalty", "reentrant", "hooked_in_another_mode"}, PROGRAMS)
)
def test_it_trains_in_a_part_of_its_peak(name: str, tmp_path: Path) -> None:
    program = script("tests/e2e/second_order.py", name)
    plain = run(program, {}, tmp_path / "plain").succeeded()
    watched = run(program, {"EBBTIDE": "1"}, tmp_path / "watched").succeeded()
    budget = str(int(SHARES[name] * watched.report["peak_bytes"]))
    within = run(program, {"EBBTIDE_BUDGET": budget}, tmp_path / "within").succeeded()
    assert watched.results == plain.results
    assert within.results == plain.results
    assert within.report["budget_violations"] == 0, within.output
    gone = sum(within.report[key] for key in ("spilled_bytes", "offloaded_bytes", "recomputed_ops"))
    assert gone > 0 or SHARES[name] > 1, within.output
