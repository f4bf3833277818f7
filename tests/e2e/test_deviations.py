"""Steps that unseen do something else than was planned: the bits stay those of stock torch."""

import importlib.util
import itertools
import json
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from conftest import MIB
from deviating_replays import CHANGES, ENDS_MIDWAY, ON_PLAN
from deviating_sources import SOURCES
from deviation_nets import ROWS, STEADY, STEPS, WIDTH
from deviations import VARIANTS
from processes import LIBRARIES, Finished, Program, run, script
from tiers import nightly_but


def program(names: list[str], ranks: int, *options: str) -> Program:
    variants = ("--variants", ",".join(names))
    return script("tests/e2e/deviations.py", *variants, *options, ranks=ranks)


# That tests without a parameter are about.
ALWAYS = {
    "takes_memory_in_a_verification",
    "overwrites_in_backward",
    "reduces_in_forward",
    "indexes_by_lists",
    "solves_least_squares",
}


@pytest.fixture(scope="module")
def stock(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Finished]:
    """Results by variant of tested programs with so many ranks, from one run: each seeds anew."""
    tested = ALWAYS | {
        item.callspec.params.get("name")
        for item in request.session.items
        if hasattr(item, "callspec") and item.path == request.path
    }

    @cache
    def results(ranks: int) -> Finished:
        names = [name for name in VARIANTS if name in tested and VARIANTS[name].ranks == ranks]
        return run(program(names, ranks), {}, tmp_path_factory.mktemp("stock")).succeeded()

    return results


def budgeted(
    name: str,
    folder: Path,
    offload: str = "never",
    more: dict[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> Finished:
    variables = {
        "EBBTIDE_BUDGET": str(int(VARIANTS[name].budget_mib * MIB)),
        "EBBTIDE_ON_INFEASIBLE": "best-effort",  # a deviating step may need more than a planned one
        "EBBTIDE_LOG": "debug",  # a line a step
        "EBBTIDE_OFFLOAD": offload,
        **(more or {}),
    }
    return run(program([name], VARIANTS[name].ranks, *options), variables, folder)


COMPARED = [name for name in VARIANTS if not VARIANTS[name].unsteady]
REPEATED = [name for name in COMPARED if not VARIANTS[name].refused and not VARIANTS[name].on_host]
# Of each kind of deviation, by the files that have them; the others are nightly.
REPEATED_EVERY_TIME = {
    "does_everything_in_between",
    "skips_the_auxiliary_loss_once",
    "alternates",
    "sets_data",
    "moves_to_a_thread",
    "draws_in_a_custom_op",
    "writes_results_through_numpy",
    "fills",
    "fills_later",
    "swaps_activations",
    "refills_a_kept_graph",
    "drops_out",
    "zeroes_a_mask_unseen",
    "reads_what_does_not_repeat",
    "reads_what_hardly_differs",
    "saves_what_hardly_differs",
    "moves_statistics",
    "trains_parts_of_one_buffer",
    "lengths",
    "lengths_fill",
    "indexes_by_lists",
    "breaks_an_index_but_holds_its_results",
    "weighs_losses",
}


# Some take over 20 s: stock torch trains them once for all tests, whichever is the first.
@pytest.mark.parametrize("name", nightly_but(REPEATED_EVERY_TIME, REPEATED))
def test_same_bits(name: str, stock: Callable[[int], Finished], tmp_path: Path) -> None:
    variant = VARIANTS[name]
    done = budgeted(name, tmp_path).succeeded(over_budget=not variant.holds)
    expected = [result[name] for result in stock(variant.ranks).results]
    assert [result[name] for result in done.results] == expected
    assert len(done.reports) == variant.ranks, done.output
    for report in done.reports:
        assert not report["pass_through"], done.output
        assert report["recomputed_ops"] + report["decoded_values"] > 0, done.output
        assert not variant.decodes or report["decoded_values"] > 0, done.output
        assert not variant.online or report["dropped_online_bytes"] > 0, done.output
        assert not variant.online or report["replayed_online_ops"] > 0, done.output
        rejected = tuple(sorted(report["rejected"]))
        assert variant.rejects is None or rejected == variant.rejects, done.output
    if variant.follows:
        # It goes on in the first step that does more, but for what is kept for that. Later ones
        # may have a plan of their own.
        assert "left its plan" not in done.output, done.output
        replayed = [int(n) for n in re.findall(r"debug: step .* recomputed (\d+),", done.output)]
        assert replayed[STEADY] > replayed[STEADY - 1] // 2 > 0, done.output
    if variant.steady:
        spilled = re.findall(r"debug: step (\d+): .* spilled (\d+),", done.output)
        assert len(spilled) == variant.steps
        assert not [step for step, n in spilled if int(step) > variant.steady and int(n) > 0], (
            done.output
        )


OFFLOADED = {
    "writes_through_numpy",
    "writes_parts",
    "refills_a_kept_graph",
    "writes_one_number_between_passes",
    "frees_what_it_read",
    "swaps_activations",
    "sets_data_of_a_view",
    "writes_before_saving",
    "reads_what_was_saved_twice",
    "runs_one_head_twice",
    "moves_to_a_thread",
}
OFFLOADED_EVERY_TIME = {
    "writes_through_numpy",
    "refills_a_kept_graph",
    "moves_to_a_thread",
}


@pytest.mark.parametrize("name", nightly_but(OFFLOADED_EVERY_TIME, COMPARED))
def test_same_bits_with_values_on_the_host(
    name: str, stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    """What is fetched back is what was there: such a step needs no error, but for what a plan still
    computes again."""
    variant = VARIANTS[name]
    # This machine's may look so slow beside other work that a plan computes all of it again.
    disk = {"LD_PRELOAD": str(LIBRARIES / "libebbtide_fast_disk.so")}
    done = budgeted(name, tmp_path, "auto", disk)
    if done.status != 0 and variant.refused:
        assert done.said(f"ebbtide: .*{variant.refused}.*EBBTIDE=1"), done.output
        return
    done.succeeded(over_budget=not variant.holds)
    expected = [result[name] for result in stock(variant.ranks).results]
    assert [result[name] for result in done.results] == expected
    assert not any(report["pass_through"] for report in done.reports), done.output
    if name in OFFLOADED:
        assert all(report["offloaded_bytes"] for report in done.reports), done.output


def planners() -> list[str]:
    """All that there are; those that need a solver where it is installed."""
    told = subprocess.check_output([LIBRARIES.parent / "bin" / "ebbtide", "planners", "--json"])
    solver = importlib.util.find_spec("ortools") is not None
    return [
        one["name"]
        for one in json.loads(told)
        if solver or "ortools" not in [option["name"] for option in one["options"]]
    ]


FILLED_UNSEEN = ["indexes_by_lists", *(f"reads_{source}" for source in SOURCES)]
FILLED_EVERY_TIME = {("indexes_by_lists", "greedy"), ("reads_raw_memory", "greedy")}


# Those that search until a deadline, auto and moccasin-local, take up to a minute.
@pytest.mark.parametrize(
    ("name", "planner"),
    [
        pytest.param(*case, marks=() if case in FILLED_EVERY_TIME else pytest.mark.nightly)
        for case in itertools.product(FILLED_UNSEEN, planners())
    ],
)
def test_what_is_filled_unseen_under_each_planner(
    name: str, planner: str, stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    """Beside the tests above it has poison on, so that no block is right by chance."""
    for offload in ("never", "auto"):
        variables = {"EBBTIDE_PLANNER": planner}
        done = budgeted(name, tmp_path / offload, offload, variables, ("--poison",))
        done.succeeded(over_budget=True)
        assert done.results[0][name] == stock(1).results[0][name]


@pytest.mark.nightly  # `indexes_by_lists` above and below stands for it
def test_lists_as_indices_within_a_budget_that_holds(
    stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    name = "indexes_by_lists"
    feasible = {"EBBTIDE_BUDGET": "30MiB", "EBBTIDE_ON_INFEASIBLE": "stop"}
    done = budgeted(name, tmp_path, more=feasible).succeeded()
    assert done.results[0][name] == stock(1).results[0][name]
    assert done.report["recomputed_ops"] > 0, done.output


def solves_alike() -> bool:
    """Torch 2.11's solutions differ."""
    left, right = torch.randn(512, 64), torch.randn(512, 8)
    solutions = [torch.linalg.lstsq(left, right).solution for _ in range(20)]
    return all(torch.equal(solutions[0], one) for one in solutions)


@pytest.mark.parametrize("offload", nightly_but({"never"}, ["never", "auto"]))
def test_what_does_not_repeat_in_stock_torch_is_trained_to_its_end(
    offload: str, stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    name = "solves_least_squares"
    done = budgeted(name, tmp_path, offload).succeeded(over_budget=True)
    losses, expected = (
        [float.fromhex(loss) for loss in one.results[0][name]["losses"]] for one in (done, stock(1))
    )
    assert losses == pytest.approx(expected, rel=1e-4)
    said = done.output.count("the results of aten::linalg_lstsq are kept")
    assert said == (1 if "aten::linalg_lstsq" in done.report["rejected"] else 0), done.output
    # On the host it needs no replay.
    assert said or offload == "auto" or solves_alike(), done.output


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name].either])
def test_the_same_bits_or_no_number(
    name: str, stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    done = budgeted(name, tmp_path)
    if done.status == 0:
        assert done.results[0][name] == stock(1).results[0][name]
    else:
        assert done.said(f"ebbtide: .*{VARIANTS[name].refused}.*EBBTIDE=1"), done.output


@pytest.mark.parametrize(
    "name",
    nightly_but(
        {"sets_data_of_a_view", "swaps_its_input"},
        (
            "moves_its_input",
            "sets_data_of_a_view",
            "swaps_activations",
            "swaps_its_input",
            "swaps_its_outputs",
        ),
    ),
)
def test_same_bits_where_the_step_fits(
    name: str, stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    """No operations are recorded there: saved tensors alone tell what is kept."""
    done = run(program([name], 1), {"EBBTIDE_BUDGET": "1GiB"}, tmp_path).succeeded()
    assert done.results[0][name] == stock(1).results[0][name]


REFUSED = [name for name in VARIANTS if VARIANTS[name].refused and not VARIANTS[name].either]


@pytest.mark.parametrize("name", REFUSED)
def test_no_number_rather_than_a_wrong_one(name: str, tmp_path: Path) -> None:
    done = budgeted(name, tmp_path)
    assert done.status == 1, done.output
    assert done.said(f"ebbtide: .*{VARIANTS[name].refused}.*EBBTIDE=1"), done.output
    assert f"step {STEADY - 1}\n" in done.output and f"step {STEADY}\n" not in done.output
    assert done.report["recomputed_ops"] > 0
    assert not done.results


def test_short_memory_in_a_verification_is_no_operation_s_fault(
    stock: Callable[[int], Finished], tmp_path: Path
) -> None:
    name = "takes_memory_in_a_verification"
    variables = {
        "EBBTIDE_BUDGET": str(int(VARIANTS[name].budget_mib * MIB)),
        "EBBTIDE_LOG": "debug",
    }
    done = run(program([name], 1), variables, tmp_path).succeeded()
    assert done.results[0][name] == stock(1).results[0][name]
    assert done.said("the verification step failed: ebbtide: out of memory"), done.output
    assert not done.report["rejected"], done.output
    assert done.report["recomputed_ops"] > 0, done.output


def test_a_replay_that_agrees_with_another_is_not_said_to_differ(tmp_path: Path) -> None:
    done = budgeted("fills_what_was_read", tmp_path).succeeded(over_budget=True)
    line = "the results of aten::ones are kept, not computed again: "
    assert done.said(line + "something that Ebbtide did not see wrote into"), done.output


def test_an_operation_of_the_plan_is_rejected_once(tmp_path: Path) -> None:
    """Though it has another number in the step that finds it."""
    done = budgeted("measures_in_a_verification", tmp_path).succeeded(over_budget=True)
    assert done.output.count("the results of aten::sub are kept") == 1, done.output


def uses_of_plans(output: str) -> tuple[list[str], set[int]]:
    """How each step used its plan, and after which ones plans were made."""
    steps: list[str] = []
    planned_after = set()
    for line in output.splitlines():
        if step := re.search(r"debug: step \d+: .* plan (\w+)$", line):
            steps.append(step[1])
        elif "plan by " in line:
            planned_after.add(len(steps) - 1)
    return steps, planned_after


def test_a_verification_that_ends_midway_is_no_proof(tmp_path: Path) -> None:
    """Three of them, and another plan is made."""
    done = budgeted("ends_backward_midway", tmp_path).succeeded(over_budget=True)
    steps, planned_after = uses_of_plans(done.output)
    assert len(steps) == VARIANTS["ends_backward_midway"].steps, done.output
    assert CHANGES in planned_after, done.output
    assert [steps[step] for step in ENDS_MIDWAY] == ["verified"] * 3, done.output
    assert planned_after & set(ENDS_MIDWAY) == {ENDS_MIDWAY[-1]}, done.output


def test_what_was_compared_with_nothing_is_no_proof(tmp_path: Path) -> None:
    """The next verification step is whole, and the plan trusted after it."""
    done = budgeted("grows_a_result_in_a_verification", tmp_path).succeeded(over_budget=True)
    steps, planned_after = uses_of_plans(done.output)
    assert CHANGES in planned_after, done.output
    after = steps[ON_PLAN : ON_PLAN + 3]
    assert after == ["verified", "verified", "followed"], done.output


def test_the_programs_do_what_they_say(stock: Callable[[int], Finished]) -> None:
    (results,) = stock(1).results
    message = f"modified by an inplace operation: [torch.FloatTensor [{ROWS}, {WIDTH}]]"
    refused = [loss for loss in results["overwrites_in_backward"]["losses"] if message in loss]
    assert len(refused) == STEPS - STEADY
    ranks = [result["reduces_in_forward"]["losses"] for result in stock(2).results]
    same = [first == second for first, second in zip(*ranks, strict=True)]
    assert same == [True] * STEADY + [False] * (STEPS - STEADY)
