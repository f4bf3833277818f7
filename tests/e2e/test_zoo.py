"""Programs as people write them: the same bits under a budget, and the budget holds."""

from pathlib import Path

import pytest
import zoo
from conftest import measure
from processes import Finished, run, script
from tiers import nightly_but

# Of each family that no other training of ./dev test stands for.
EVERY_TIME = {
    "other_models.gan",
    "precision_programs.autocast_bf16",
    "randomness_programs.generators",
    "memory_tool_programs.checkpoint",
    "transform_programs.traced",
}


# torch.func alone makes its gradients: no graph of the program's, and so no step.
WITHOUT_STEPS = "transform_programs.functional_gradient"


def training(names: list[str], ranks: int):
    return script("tests/e2e/zoo_train.py", *names, ranks=ranks)


def without_times(done: Finished) -> list[dict]:
    """By rank and program, all that was computed."""
    return [
        {name: {k: v for k, v in one.items() if k != "step_seconds"} for name, one in rank.items()}
        for rank in done.results
    ]


# Up to 70 s: a program is trained in stock torch, measured, and under each budget.
@pytest.mark.parametrize(
    "name", nightly_but(EVERY_TIME, [p for p in zoo.programs() if p != WITHOUT_STEPS])
)
def test_same_bits_within_the_budget(name: str, tmp_path: Path) -> None:
    program = zoo.program(name)
    baseline = measure(training([name], program.ranks), tmp_path)
    expected = without_times(baseline.plain)
    assert without_times(baseline.measured) == expected
    # What each rank sent, in its order, is compared too: there is some.
    assert program.ranks == 1 or all(
        rank[name]["collectives"] or any("isend" in text for text in rank[name]["losses"])
        for rank in expected
    )
    for offload in ("auto", "never"):
        variables = {
            "EBBTIDE_BUDGET": str(baseline.budget(program.fraction)),
            "EBBTIDE_OFFLOAD": offload,
        }
        done = run(baseline.program, variables, tmp_path / offload).succeeded()
        assert without_times(done) == expected
        assert len(done.reports) == program.ranks, done.output
        for report in done.reports:
            assert not report["pass_through"], done.output
            assert report["budget_violations"] == 0, done.output
            if offload == "never":
                planned = report["recomputed_ops"] + report["decoded_values"] > 0
                assert program.varies or planned != bool(program.kept), done.output


@pytest.mark.nightly
def test_a_program_without_a_step_is_told_that_nothing_can_go(tmp_path: Path) -> None:
    program = training([WITHOUT_STEPS], 1)
    plain = run(program, {}, tmp_path / "plain").succeeded()
    done = run(program, {"EBBTIDE_BUDGET": "20MiB"}, tmp_path / "budget")
    assert done.status == 0 and without_times(done) == without_times(plain)
    assert done.output.count("and no training step was seen: nothing was dropped") == 1, done.output
