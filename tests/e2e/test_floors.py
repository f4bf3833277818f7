"""The smallest budget that is told, and what is refused by it."""

import re
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, run, script


def program(name: str) -> Program:
    return script("tests/e2e/floors.py", name)


def within(name: str, budget_mib: int, folder: Path) -> Finished:
    variables = {"EBBTIDE_BUDGET": f"{budget_mib}MiB"}
    return run(program(name), variables, folder)


def test_what_is_written_in_place_is_needed_once(tmp_path: Path) -> None:
    """4 MiB and some pages, and 2 MiB of margin, in whole MiB: twice 4 MiB would not fit."""
    done = within("writes_in_place", 7, tmp_path).succeeded()
    assert done.report["budget_violations"] == 0
    assert done.report["smallest_feasible_budget_bytes"] <= 7 * MIB


def test_a_tensor_that_is_left_puts_no_check_off(tmp_path: Path) -> None:
    done = within("leaves_a_tensor", 16, tmp_path)
    assert done.status == 1 and done.said("too small for this program"), done.output
    assert done.report["steps"] == 1
    told = -(-done.report["smallest_feasible_budget_bytes"] // MIB)
    within("leaves_a_tensor", told, tmp_path / "told").succeeded()


def test_the_largest_step_tells_the_budget(tmp_path: Path) -> None:
    """An operation's input and output are 4 MiB each in the first step, 256 KiB in the second."""
    done = within("shrinks", 64, tmp_path).succeeded()
    assert done.report["smallest_feasible_budget_bytes"] > 8 * MIB


@pytest.mark.parametrize(
    ("name", "budget_mib"),
    [
        ("accumulates_gradients", 12),
        ("runs_custom_functions", 22),
        ("draws_the_next_batch", 11),
    ],
)
def test_a_budget_that_holds_is_accepted(name: str, budget_mib: int, tmp_path: Path) -> None:
    """What no operation made takes nothing before its block is allocated."""
    stock = run(program(name), {}, tmp_path / "stock").succeeded()
    done = within(name, budget_mib, tmp_path).succeeded()
    assert done.results == stock.results
    assert done.report["budget_violations"] == 0
    assert 0 < done.report["smallest_feasible_budget_bytes"] <= budget_mib * MIB


@pytest.mark.parametrize(
    ("name", "budget_mib", "needed_mib", "floor"),
    [
        ("has_a_wide_head", 6, 12.1, r"LogSoftmaxBackward0, 3 blocks of 4\.0 MiB\."),
        # Weights, gradients, Adam's state and its step: 1, 1, 2 and 1 MiB of each layer.
        ("updates_all_at_once", 20, 30.1, r"the optimizer's step, not activations, \d+ blocks of "),
    ],
    ids=["head", "update"],
)
def test_a_refusal_names_what_is_live_at_the_floor(
    name: str, budget_mib: int, needed_mib: float, floor: str, tmp_path: Path
) -> None:
    refused = within(name, budget_mib, tmp_path / "refused")
    assert refused.status == 1 and f"which needs {needed_mib} MiB.\n" in refused.output
    most = re.findall(rf"^Most is needed by {floor}", refused.output, re.M)
    assert len(most) == 1, refused.output
    told = refused.report["smallest_feasible_budget_bytes"] // MIB
    assert needed_mib + 2 <= told <= needed_mib + 3
    stock = run(program(name), {}, tmp_path / "stock").succeeded()
    assert within(name, told, tmp_path / "told").succeeded().results == stock.results
