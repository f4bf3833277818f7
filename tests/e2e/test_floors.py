"""The smallest budget that is told, and what is refused by it."""

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
