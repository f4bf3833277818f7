"""Ops that run again on an emulated GPU: what they draw, and what gives other results then."""

from pathlib import Path

import emulated_gpu
import pytest
from emulated_gpu import in_a_budget
from tiers import nightly_but

pytestmark = emulated_gpu.where_it_is_built

# What differs from run to run on a device: sums in no order, and convolutions by their workspace.
UNSTEADY = {
    "step_programs.adding_in_no_order": 0.7,
    "step_programs.flash_without_dropout": 0.7,
    "model_programs.benchmarked_convolutions": 0.7,
}


@pytest.mark.parametrize(
    "program", nightly_but({"model_programs.benchmarked_convolutions"}, UNSTEADY)
)
def test_same_bits_on_an_unsteady_device(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(emulated_gpu.SMALL, "EMULATED_GPU_UNSTEADY", "1")
    _, ours = in_a_budget(program, UNSTEADY[program], tmp_path)
    given_up = ("recomputed_ops", "offloaded_bytes", "spilled_bytes")
    assert sum(ours.report[name] for name in given_up) > 0, ours.output


# And leave the program's generator where it was: its state is one of the bits.
@pytest.mark.nightly
def test_replays_draw_what_their_ops_drew(tmp_path: Path) -> None:
    program = "training_programs.mlp_with_dropout"
    _, ours = in_a_budget(program, 0.6, tmp_path, EBBTIDE_OFFLOAD="never")
    assert ours.report["audited"].get("aten::native_dropout", 0) > 0, ours.output
    assert ours.report["rejected"] == {}, ours.output


# Not one of the ops that are known to add in no order: its first replays are compared with what it
# gave before, here or in pinned memory.
@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.6, 0.8])
def test_what_does_not_repeat_is_kept(share: float, tmp_path: Path) -> None:
    program = "step_programs.other_results_in_backward"
    _, ours = in_a_budget(program, share, tmp_path, EBBTIDE_OFFLOAD="never")
    assert set(ours.report["rejected"]) == {"aten::tanh"}, ours.output


# Its verification step was right, and its original is gone: no result is better than a wrong one.
@pytest.mark.nightly
def test_what_repeats_no_longer_ends_the_step(tmp_path: Path) -> None:
    program = "step_programs.other_results_in_a_late_backward"
    plain = emulated_gpu.train(program, {}, tmp_path / "plain")
    assert plain.status == 0, plain.output
    variables = {
        "EBBTIDE_BUDGET": str(emulated_gpu.budget(plain, 0.7)),
        "EBBTIDE_OFFLOAD": "never",
    }
    ours = emulated_gpu.train(program, variables, tmp_path / "ours")
    assert ours.status != 0, ours.output
    assert "aten::tanh gave other results when it was run again" in ours.output, ours.output
