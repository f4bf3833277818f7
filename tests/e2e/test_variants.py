"""What real scripts do besides a plain step. Under a budget each trains to the same bits."""

from pathlib import Path

import pytest
from conftest import VARIANT_STEPS
from processes import run, script, tiny
from tiers import nightly_but
from tiny_train import VARIANTS

# Of the others the zoo, deviations and examples have a training like them.
EVERY_TIME = {
    "evaluates",
    "never_backward",
    "raises",
    "forked_workers",
    "double_backward",
    "checkpoints",
    "autocast",
}


@pytest.mark.parametrize("variant", nightly_but(EVERY_TIME, VARIANTS))
def test_same_bits_under_a_budget(
    variant: str, tiny_budget: str, every_variant: dict[str, dict], tmp_path: Path
) -> None:
    # The budget is the plain variant's, half of its activations; double backward needs more.
    budget = str(int(tiny_budget) * (3 if variant == "double_backward" else 1))
    variables = {"EBBTIDE_BUDGET": budget, "EBBTIDE_ON_INFEASIBLE": "best-effort"}
    done = run(tiny(variant, VARIANT_STEPS), variables, tmp_path).succeeded()
    assert done.results[0][variant] == every_variant[variant]
    # Workers of a data loader train nothing: neither a banner of theirs nor a report over ours.
    assert done.output.count("(torch ") == 1, done.output
    if variant == "never_backward":
        assert done.report["recomputed_ops"] == 0
    else:
        assert done.report["steps"] >= VARIANT_STEPS
        assert done.report["recomputed_ops"] > 0  # a plan was in use


def test_leaves_that_are_parts_of_one_tensor(tmp_path: Path) -> None:
    """No parameter tells when a step is over; plain it holds 22 MiB, 8 of data, 2 the net."""
    program = script("tests/e2e/saliency.py")
    plain = run(program, {}, tmp_path / "plain").succeeded()
    done = run(program, {"EBBTIDE_BUDGET": "18MiB"}, tmp_path / "budget").succeeded()
    assert done.results == plain.results
    assert done.report["steps"] >= 30, done.output
    assert done.report["budget_violations"] == 0, done.output
    assert done.report["recomputed_ops"] + done.report["spilled_bytes"] > 0


def test_the_variants_do_what_they_say(every_variant: dict[str, dict]) -> None:
    # overwrites: its first number of each step is 1 where PyTorch refused, at steps 1, 5, 9, ...
    refused = [float.fromhex(value) for value in every_variant["overwrites"]["losses"][::2]]
    assert refused == [1.0 if step % 4 == 1 else 0.0 for step in range(VARIANT_STEPS)]
    # never_backward: without a gradient AdamW changes nothing, so other variants end elsewhere.
    hashes = {name: result["parameters_sha256"] for name, result in every_variant.items()}
    assert hashes["never_backward"] != hashes["plain"]
    # Data loader workers make the same batches as the process itself.
    assert hashes["forked_workers"] == hashes["spawned_workers"] == hashes["plain"]
