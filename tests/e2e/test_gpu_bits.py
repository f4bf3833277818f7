"""Trainings on an emulated GPU: in a budget the bits of those without, some in less memory."""

from pathlib import Path

import emulated_gpu
import pytest
from emulated_gpu import STREAMS, in_a_budget
from tiers import nightly_but

pytestmark = emulated_gpu.where_it_is_built

# Program: share of the blocks' peak that the budget has.
TIGHT = {
    "training_programs.mlp": 0.6,
    "training_programs.mlp_with_dropout": 0.6,
    "training_programs.transformer_with_dropout": 0.6,
    "training_programs.transformer_in_bf16": 0.6,
    "training_programs.lstm_with_dropout": 0.6,
    "training_programs.whole_on_a_stream": 0.6,
    "training_programs.with_a_graph": 0.6,
    "training_programs.switched_in_between": 0.6,
    "model_programs.gpt2": 0.7,
    "model_programs.bert": 0.7,
    "model_programs.vit": 0.7,
    "model_programs.residual_net": 0.7,
    "model_programs.unet": 0.7,
    "model_programs.mixture_of_experts": 0.7,
    "model_programs.gan": 0.7,
    "step_programs.float16_scaled": 0.7,
    "step_programs.fused_adamw": 0.7,
    "step_programs.accumulating": 0.7,
    "step_programs.flash_without_dropout": 0.7,
    "step_programs.every_kind_of_draw": 0.7,
    "device_programs.prefetching": 0.7,
    "device_programs.scratch_on_a_side_stream": 0.7,
    "device_programs.pinned_loader": 0.7,
    "device_programs.saving_in_a_thread": 0.7,
    "device_programs.out_of_memory_caught": 0.7,
    "device_programs.cache_emptied": 0.7,
    "device_programs.own_pool": 0.7,
    "device_programs.graphed_callables": 0.7,
}
# Sizes are others in each step: no plan is followed to its end.
VARIES = {"model_programs.mixture_of_experts"}
# Nothing is dropped there, or hardly anything else is needed than what training keeps.
AMPLE = {
    "training_programs.two_streams": 1.3,
    "model_programs.llama": 1.1,
    "model_programs.resnet": 1.1,
    "model_programs.resnet_channels_last": 1.1,
    "device_programs.whole_step_captured": 1.3,  # a page is a large part of its pools
}
EVERY_TIME = {  # for convolutions and batch norm stands a program of test_gpu_replays.py
    "training_programs.mlp",  # offloads
    "training_programs.with_a_graph",
    "step_programs.flash_without_dropout",  # attention
    "device_programs.graphed_callables",  # a warm-up on a stream of its own
}


# Up to 60 s: everything that a GPU would compute, a core does.
@pytest.mark.parametrize("program", nightly_but(EVERY_TIME, TIGHT))
def test_same_bits_in_less_memory(program: str, tmp_path: Path) -> None:
    _, ours = in_a_budget(program, TIGHT[program], tmp_path)
    planned = ours.report["recomputed_ops"] + ours.report["offloaded_bytes"]
    if program in VARIES:
        planned += ours.report["spilled_bytes"]
    assert planned > 0, ours.output
    assert STREAMS not in ours.output
    if (
        program == "training_programs.mlp"
    ):  # few small tensors beside its activations: cheap to move
        assert ours.report["offloaded_bytes"] > 0, ours.output
    if program == "step_programs.flash_without_dropout":  # its unwritten outputs reject nothing
        assert ours.report["audited"]["aten::_scaled_dot_product_flash_attention"] > 0
        assert ours.report["rejected"] == {}


@pytest.mark.parametrize("program", nightly_but({"device_programs.whole_step_captured"}, AMPLE))
def test_same_bits_where_everything_is_kept(program: str, tmp_path: Path) -> None:
    in_a_budget(program, AMPLE[program], tmp_path)
