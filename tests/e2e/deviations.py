"""Training programs that repeat one step until a plan is in use, and then do something else.

Plain PyTorch. Writes losses and a parameter hash by variant, so that two runs compare. What stands
in the first STEADY steps is what gets planned; `late` steps deviate from it in a way that neither
the operators nor their shapes show.
"""

import argparse
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import planner
import torch
import torch.distributed as dist
from deviating_contents import (
    batched_gradients,
    clips_weights,
    draws_in_a_custom_op,
    forward_without_mkldnn,
    frees_its_input,
    frees_what_it_read,
    moves_its_input,
    negates_activations,
    overwrites_in_backward,
    reads_foreign_memory,
    reduces_in_forward,
    refills_a_kept_graph,
    refills_early,
    refills_its_input,
    swaps_activations,
    swaps_its_input,
    swaps_its_outputs,
    writes_and_returns_nothing,
    writes_one_number_between_passes,
    writes_one_of_two_results,
    writes_results_through_numpy,
    writes_through_numpy,
    writes_through_numpy_before_saving,
)
from deviating_fills import (
    always,
    fills,
    fills_a_copy,
    fills_between_two_reads,
    fills_what_was_read,
    writes_weights_unseen,
)
from deviating_insertions import (
    calls_a_function_in_between,
    does_everything_in_between,
    draws_in_between,
    loses_more,
    measures_everywhere,
    measures_in_between,
    penalises_in_between,
    reads_an_array_in_between,
    reads_the_last_source_first,
    runs_another_net_in_between,
    runs_backward_in_between,
    writes_in_between,
)
from deviating_lengths import (
    calls_what_does_not_repeat,
    drops_out_by_chance,
    fails_in_between,
    frees_what_was_read,
    lets_go_late,
    penalises_gradients,
    reads_what_was_saved,
    runs,
    runs_twice,
    saves_each_twice,
    updates_in_backward,
    writes_in_place,
    writes_weights,
    writes_weights_in_forward,
    writes_what_it_holds,
    writes_what_was_read,
)
from deviating_masks import (
    adds_a_mask_everywhere,
    always_runs_a_masked_graph_twice,
    drops_out,
    one_other_word,
    reads_a_mask_again,
    runs_a_masked_graph_twice,
    scales_each_row,
    sets_data_of_a_mask,
    shares_a_mask_between_graphs,
    zeroes_a_mask,
    zeroes_a_mask_through_numpy,
    zeroes_a_mask_unseen,
)
from deviating_messages import sends_what_it_saved
from deviating_parts import (
    halves_a_column_of_each,
    halves_a_corner,
    halves_what_lies_beside,
    parts_of_more_rows,
    writes_a_saved_part_through_numpy,
    writes_parts,
)
from deviating_programs import (
    alternates,
    asks_for_what_was_saved,
    calls_functional_transforms,
    comes_back_after_steps_that_fit,
    every_fourth_step_grows,
    every_other_step_fits,
    fails_in_place,
    grows,
    has_one_more_operation_once,
    is_large_now_and_then,
    is_large_rarely,
    moves_to_a_thread,
    refills_what_two_programs_read,
    runs_one_head_again,
    runs_one_head_twice,
    runs_one_head_without_the_other,
    sets_data,
    sets_data_of_all,
    skips_the_auxiliary_loss,
    splits_otherwise,
    three_in_turn,
    trains_now_and_then,
    writes_beside_a_kept_graph,
)
from deviating_replays import (
    ALL_ROWS,
    UNSAMPLED_ROW,
    ends_backward_midway,
    grows_a_result_in_a_verification,
    measures_in_a_verification,
    moves_statistics,
    reads_again_after_its_last_use,
    reads_what_does_not_repeat,
    saves_what_does_not_repeat,
    takes_memory_in_backward,
    trains_parts_of_one_buffer,
)
from deviating_sources import (
    SOURCES,
    Spoken,
    aligns_sentences,
    breaks_an_index_but_holds_its_results,
    breaks_its_index,
    indexes_by_lists,
    reads_what_fills,
    solves_least_squares,
    spreads_volumes,
    weighs_losses,
)
from deviating_storages import (
    only_looks_in_the_main_thread,
    reads_what_was_saved_twice,
    refills_what_it_wrote_unseen,
    sets_data_and_lets_go,
    sets_data_of_a_view,
    shrinks_before_saving,
    switches_the_precision,
    writes_before_saving,
)
from deviation_nets import (
    STEADY,
    STEPS,
    Blocks,
    Convolutions,
    MoreBlocks,
    Normalised,
    Parts,
    Scales,
    Shifted,
    Train,
    late,
)
from torch import nn


@dataclass(frozen=True)
class Variant:
    net: type[nn.Module]
    train: Train
    budget_mib: float = 11  # about two thirds of the plain peak
    steps: int = STEPS
    ranks: int = 1
    holds: bool = False  # within the budget in every step
    steady: int = 0  # from this step on nothing is spilled: each one has its plan
    decodes: bool = False  # its plan keeps masks as bits
    rejects: tuple[str, ...] | None = None  # these operations' replays, and no others
    online: bool = False  # what no plan foresees is dropped, and computed again
    on_host: bool = False  # a replay does not see what it does: docs/limits.md, "samples"
    follows: bool = False  # its plan, in all steps that do more
    either: bool = False  # the same bits, or `refused`
    unsteady: bool = False  # stock torch itself gives other bits each time
    refused: str = ""  # not to be repeated: the error that says so, instead of a wrong number


VARIANTS = {
    "measures_in_between": Variant(Scales, measures_in_between, 9.5, follows=True),
    "measures_everywhere": Variant(Scales, measures_everywhere, 9.5, follows=True),
    "draws_in_between": Variant(Scales, draws_in_between, 11.5, follows=True),
    "reads_an_array_in_between": Variant(Scales, reads_an_array_in_between, 9.5, follows=True),
    "loses_more": Variant(Scales, loses_more, 11.5, follows=True),
    "penalises_in_between": Variant(Scales, penalises_in_between, 11.5, follows=True),
    "calls_a_function_in_between": Variant(Scales, calls_a_function_in_between, 11.5, follows=True),
    "runs_backward_in_between": Variant(Scales, runs_backward_in_between, 9.5),
    "writes_in_between": Variant(Scales, writes_in_between, 9.5),
    "does_everything_in_between": Variant(Scales, does_everything_in_between, 11.5, follows=True),
    "runs_another_net_in_between": Variant(Scales, runs_another_net_in_between, 11.5),
    "reads_the_last_source_first": Variant(Scales, reads_the_last_source_first, 9.5),
    "skips_the_auxiliary_loss_once": Variant(Scales, skips_the_auxiliary_loss(2), 9.5),
    "skips_the_auxiliary_loss_long": Variant(Scales, skips_the_auxiliary_loss(*range(2, 9)), 9.5),
    "trains_now_and_then": Variant(Scales, trains_now_and_then, 9.5),
    "clips_weights": Variant(Blocks, clips_weights),
    "frees_its_input": Variant(Shifted, frees_its_input(since=0)),
    "frees_its_input_later": Variant(Shifted, frees_its_input(since=STEADY), refused="was resized"),
    "refills_its_input": Variant(Shifted, refills_its_input),
    "overwrites_in_backward": Variant(Blocks, overwrites_in_backward),
    "draws_in_a_custom_op": Variant(Scales, draws_in_a_custom_op),
    "forward_without_mkldnn": Variant(Convolutions, forward_without_mkldnn),
    "batched_gradients": Variant(Scales, batched_gradients),
    "reduces_in_forward": Variant(Scales, reduces_in_forward, ranks=2),
    "sends_what_it_saved": Variant(Scales, sends_what_it_saved, 27, ranks=2),
    "writes_through_numpy": Variant(
        Scales,
        writes_through_numpy,
        8.2,
        either=True,
        refused="(gave other results|modified in place)",
    ),
    "writes_results_through_numpy": Variant(Scales, writes_results_through_numpy, 9.5),
    "writes_through_numpy_before_saving": Variant(
        Scales, writes_through_numpy_before_saving, 12.3, holds=True
    ),
    "fills": Variant(Scales, fills(always), 17, rejects=()),
    "fills_later": Variant(Scales, fills(late), 17, rejects=()),
    "fills_a_copy_later": Variant(Scales, fills_a_copy, 17),
    "fills_what_was_read": Variant(Scales, fills_what_was_read, 17),
    "fills_between_two_reads_later": Variant(
        Scales, fills_between_two_reads, 22, either=True, refused="modified in place"
    ),
    "writes_one_of_two_results": Variant(Scales, writes_one_of_two_results, 20),
    "writes_and_returns_nothing": Variant(Scales, writes_and_returns_nothing, 14.5),
    "swaps_its_outputs": Variant(Scales, swaps_its_outputs, 9.5),
    "swaps_its_input": Variant(Shifted, swaps_its_input, 13),
    "swaps_activations": Variant(Scales, swaps_activations, 9.5),
    "refills_early": Variant(Shifted, refills_early, 11),
    "negates_activations": Variant(Scales, negates_activations, 9.5),
    "refills_a_kept_graph": Variant(Shifted, refills_a_kept_graph, 11),
    "writes_one_number_between_passes": Variant(
        Scales, writes_one_number_between_passes, 8, on_host=True
    ),
    "frees_what_it_read": Variant(Scales, frees_what_it_read, 8),
    "moves_its_input": Variant(Shifted, moves_its_input, 13),
    "fails_in_place": Variant(Scales, fails_in_place, 9.5),
    "calls_functional_transforms": Variant(Scales, calls_functional_transforms, 9.5),
    "has_one_more_operation_once": Variant(MoreBlocks, has_one_more_operation_once, 14, holds=True),
    "alternates": Variant(Blocks, alternates),
    "every_other_step_fits": Variant(Blocks, every_other_step_fits, 12.5, steady=8, steps=16),
    "comes_back_after_steps_that_fit": Variant(
        Scales, comes_back_after_steps_that_fit, 8.2, steps=18
    ),
    "three_in_turn": Variant(Blocks, three_in_turn, 12.5, steady=18, steps=24),
    "sets_data_of_all": Variant(Blocks, sets_data_of_all, 12.5, steady=6),
    "sets_data": Variant(Scales, sets_data, 9.5),
    "moves_to_a_thread": Variant(Blocks, moves_to_a_thread, 12.5, steady=10),
    "splits_otherwise": Variant(Scales, splits_otherwise, 12),
    "asks_for_what_was_saved": Variant(Scales, asks_for_what_was_saved, 9.5, steady=6),
    "is_large_now_and_then": Variant(Blocks, is_large_now_and_then, 12.5, steady=24, steps=36),
    # The third is recorded, the fourth verifies its plan, and from the fifth on it is trusted.
    "is_large_rarely": Variant(Scales, is_large_rarely, 9.5, steady=256, steps=260),
    "refills_what_two_programs_read": Variant(Scales, refills_what_two_programs_read, 9),
    "writes_beside_a_kept_graph": Variant(Scales, writes_beside_a_kept_graph, 9.5),
    "grows": Variant(Blocks, grows),
    "writes_before_saving": Variant(Scales, writes_before_saving, 9),
    "shrinks_before_saving": Variant(Scales, shrinks_before_saving, 130),
    "refills_what_it_wrote_unseen": Variant(Scales, refills_what_it_wrote_unseen, 9),
    "only_looks_in_the_main_thread": Variant(Shifted, only_looks_in_the_main_thread, 11),
    "reads_what_was_saved_twice": Variant(Scales, reads_what_was_saved_twice, 9.5, steady=6),
    "sets_data_and_lets_go": Variant(Scales, sets_data_and_lets_go, 11),
    "sets_data_of_a_view": Variant(Scales, sets_data_of_a_view, 9.5),
    "switches_the_precision": Variant(Scales, switches_the_precision, 8),
    "every_fourth_step_grows": Variant(Scales, every_fourth_step_grows, 14, steady=24, steps=36),
    "drops_out": Variant(Scales, drops_out, 10.5, holds=True, decodes=True, steady=6),
    "writes_parts": Variant(Scales, writes_parts(lambda both: None), 12, holds=True, steady=6),
    "writes_a_part_that_was_saved": Variant(Scales, writes_parts(halves_a_corner), 12),
    "writes_a_part_beside": Variant(Scales, writes_parts(halves_what_lies_beside), 12),
    "writes_parts_across": Variant(Scales, writes_parts(halves_a_column_of_each), 12),
    "parts_of_more_rows": Variant(Scales, parts_of_more_rows, 9, holds=True),
    "writes_a_saved_part_through_numpy": Variant(
        Scales, writes_a_saved_part_through_numpy, 8, either=True, refused="modified in place"
    ),
    "reads_foreign_memory": Variant(Scales, reads_foreign_memory, 9.5),
    "runs_one_head_again": Variant(Scales, runs_one_head_again, 10),
    "runs_one_head_twice": Variant(Scales, runs_one_head_twice, 11),
    "runs_one_head_without_the_other": Variant(Scales, runs_one_head_without_the_other, 15),
    "scales_each_row": Variant(Scales, scales_each_row, 10.5, holds=True, decodes=True),
    "one_other_word": Variant(Scales, one_other_word, 10.5, holds=True, decodes=True),
    "zeroes_a_mask": Variant(Scales, zeroes_a_mask, 10.5, decodes=True),
    "zeroes_a_mask_unseen": Variant(Scales, zeroes_a_mask_unseen, 10.5, decodes=True),
    "zeroes_a_mask_through_numpy": Variant(Scales, zeroes_a_mask_through_numpy, 10.5, decodes=True),
    "sets_data_of_a_mask": Variant(Scales, sets_data_of_a_mask, 10.5, decodes=True),
    "runs_a_masked_graph_twice": Variant(Scales, runs_a_masked_graph_twice, 10.5, decodes=True),
    "shares_a_mask_between_graphs": Variant(Scales, shares_a_mask_between_graphs, 11),
    "reads_a_mask_again": Variant(Scales, reads_a_mask_again, 14, decodes=True),
    "adds_a_mask_everywhere": Variant(Scales, adds_a_mask_everywhere, 13, steady=8),
    "learns_of_another_word": Variant(Scales, one_other_word, 11.5, steps=24, steady=20),
    "reads_again_after_its_last_use": Variant(
        Scales, reads_again_after_its_last_use, 15, steady=6, rejects=()
    ),
    "takes_memory_in_a_verification": Variant(
        Scales, takes_memory_in_backward(1, 3, 5), 17, rejects=()
    ),
    "reads_what_does_not_repeat": Variant(
        Scales, reads_what_does_not_repeat(ALL_ROWS), 7, rejects=("aten::sub",)
    ),
    "reads_what_hardly_differs": Variant(
        Scales, reads_what_does_not_repeat(UNSAMPLED_ROW), 7, rejects=("aten::sub",)
    ),
    # 8 MiB of batches, the buffer, four of gradients, and at most two of the five differences.
    "saves_what_hardly_differs": Variant(
        Scales, saves_what_does_not_repeat, 16, rejects=("aten::sub",)
    ),
    "ends_backward_midway": Variant(Scales, ends_backward_midway, 9.5),
    "grows_a_result_in_a_verification": Variant(
        Scales, grows_a_result_in_a_verification, 7, rejects=()
    ),
    "measures_in_a_verification": Variant(
        Scales, measures_in_a_verification, 7.5, rejects=("aten::sub",)
    ),
    "moves_statistics": Variant(Normalised, moves_statistics(0), 9, rejects=()),
    "moves_statistics_later": Variant(Normalised, moves_statistics(STEADY), 9, rejects=()),
    "moves_statistics_and_trains_on_both": Variant(
        Normalised, moves_statistics(0, recorded=True), 14, rejects=()
    ),
    "trains_parts_of_one_buffer": Variant(
        Parts, trains_parts_of_one_buffer, 14, holds=True, rejects=()
    ),
    "always_runs_a_masked_graph_twice": Variant(
        Scales, always_runs_a_masked_graph_twice, 10.5, decodes=True
    ),
    "indexes_by_lists": Variant(Scales, indexes_by_lists, 26),
    **{f"reads_{source}": Variant(Scales, reads_what_fills(source), 18) for source in SOURCES},
    # Late steps hold 8 MiB more, and may go over the budget.
    "breaks_an_index_but_holds_its_results": Variant(
        Scales, breaks_an_index_but_holds_its_results, 7.5
    ),
    "breaks_its_index": Variant(
        Scales, breaks_its_index, 7.5, refused="the replay of aten::index_select failed"
    ),
    "weighs_losses": Variant(Scales, weighs_losses, 20, rejects=()),
    "spreads_volumes": Variant(Scales, spreads_volumes, 14, rejects=()),
    "aligns_sentences": Variant(Spoken, aligns_sentences, 8, rejects=()),
    "solves_least_squares": Variant(Scales, solves_least_squares, 12, unsteady=True),
    # No step is like another.
    "lengths": Variant(Scales, runs, 14, online=True, holds=True),
    "lengths_write_what_was_read": Variant(Scales, writes_what_was_read, 15, online=True),
    "lengths_write_weights": Variant(Scales, writes_weights, 11.7, online=True),
    "lengths_write_weights_in_forward": Variant(Scales, writes_weights_in_forward, 14, online=True),
    "lengths_write_in_place": Variant(Scales, writes_in_place, 13, online=True),
    "lengths_write_what_they_hold": Variant(Scales, writes_what_it_holds, 19, online=True),
    "lengths_let_go_late": Variant(Scales, lets_go_late, 20, online=True),
    "lengths_save_each_twice": Variant(Scales, saves_each_twice, 13.5, online=True),
    "lengths_run_twice": Variant(Scales, runs_twice, 15, online=True),
    "lengths_drop_out": Variant(Scales, drops_out_by_chance, 19, online=True),
    "lengths_call_what_does_not_repeat": Variant(
        Scales, calls_what_does_not_repeat, 14, online=True
    ),
    "lengths_penalise_gradients": Variant(Scales, penalises_gradients, 22, online=True),
    "lengths_free_what_was_read": Variant(Scales, frees_what_was_read, 15, online=True),
    "lengths_update_in_backward": Variant(Blocks, updates_in_backward, 13, online=True),
    "lengths_read_what_was_saved": Variant(Scales, reads_what_was_saved, 18, online=True),
    "lengths_fill": Variant(Scales, fills(always, 7), 17, online=True),
    "lengths_write_weights_unseen": Variant(
        Scales, writes_weights_unseen, 11, refused="no earlier step had compared it"
    ),
    "lengths_fail_in_between": Variant(Scales, fails_in_between, 14, online=True),
}


def train(name: str) -> dict:
    variant = VARIANTS[name]
    torch.manual_seed(1)
    net = variant.net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses: list[str] = []
    gradients = hashlib.sha256()
    for step in range(variant.steps):
        values = variant.train(net, step)
        losses += [value if isinstance(value, str) else value.hex() for value in values]
        for parameter in net.parameters():  # an update may be too small to show
            if parameter.grad is not None:
                gradients.update(parameter.grad.numpy().tobytes())
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
        print(f"{name}: step {step}", flush=True)
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return {
        "losses": losses,
        "gradients_sha256": gradients.hexdigest(),
        "parameters_sha256": digest.hexdigest(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", required=True, help="names with commas between")
    parser.add_argument("--poison", action="store_true", help="new memory holds NaN, or 2^63 - 1")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    if options.poison:  # else a block may still hold what a replay of its op left unwritten
        torch.set_deterministic_debug_mode("warn")
    rank = os.environ.get("RANK", "0")
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    results = {name: train(name) for name in options.variants.split(",")}
    Path(options.out.replace("{rank}", rank)).write_text(json.dumps(results))
    if "RANK" in os.environ:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
