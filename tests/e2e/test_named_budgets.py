"""The budget that a refusal names trains: at once, whatever the first steps leave behind them."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from conftest import MIB
from named_budgets import OPTIMIZERS, PLACES
from processes import Finished, Program, run, script
from test_bad_input import REFUSED, check_refused

TOO_SMALL = 2 * MIB  # a step keeps more than that for its backward pass

Case = tuple[str, str, bool, int, bool]  # optimizer, place, zeros, ranks, resumed


def every_case() -> list[Case]:
    """Gradients that are never cleared are cleared in no way."""
    ways = [(place, zeros) for place in PLACES for zeros in (False, True)]
    ways.remove(("never", True))
    return [
        (optimizer, place, zeros, ranks, resumed)
        for optimizer, (place, zeros), ranks, resumed in itertools.product(
            OPTIMIZERS, ways, (1, 2), (False, True)
        )
    ]


# Each place, way, number of ranks and start with several optimizers; not each with each.
USUAL: list[Case] = [
    ("sgd", "before", False, 1, False),
    ("sgd", "middle", True, 2, False),
    ("sgd", "after", False, 1, True),
    ("sgd", "never", False, 1, False),
    ("momentum", "before", True, 1, True),
    ("momentum", "middle", False, 1, False),
    ("momentum", "after", True, 2, False),
    ("adamw", "before", False, 2, True),
    ("adamw", "middle", False, 1, False),
    ("adamw", "middle", True, 1, True),
    ("adamw", "after", False, 1, False),
    ("adamw", "never", False, 2, False),
    ("adafactor", "before", True, 1, False),
    ("adafactor", "middle", False, 1, True),
    ("lbfgs", "middle", False, 1, False),
    ("lbfgs", "middle", False, 2, True),
]


def name_of(case: Case) -> str:
    optimizer, place, zeros, ranks, resumed = case
    return "-".join(
        [optimizer, place, "zeros" if zeros else "none", f"{ranks}"] + ["resumed"] * resumed
    )


def program(case: Case, folder: Path) -> Program:
    optimizer, place, zeros, ranks, resumed = case
    arguments = ["--optimizer", optimizer, "--zero", place]
    if zeros:
        arguments.append("--zeros")
    if resumed:
        saved = folder / "saved.pt"
        first = script(
            "tests/e2e/named_budgets.py", *arguments, "--steps", "3", "--save", str(saved)
        )
        run(first, {}, folder / "first").succeeded()
        arguments += ["--load", str(saved)]
    return script("tests/e2e/named_budgets.py", *arguments, ranks=ranks)


def named(done: Finished) -> int:
    """MiB. A refusal names its own rank's need, which may differ, and all ranks get one budget: the
    largest that was named. A rank that another one ended before is like those."""
    found = re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\d+)MiB", done.output)
    found += re.findall(r"(?:try|as much,) EBBTIDE_BUDGET=(\d+)MiB", done.output)
    assert found, done.output
    return max(map(int, found))


@dataclass(frozen=True)
class Trained:
    program: Program
    plain: list[dict]  # what stock torch made of it, by rank


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Trained]:
    """By case: it is trained by stock torch once, for all turns."""

    @cache
    def train(case: Case) -> Trained:
        folder = tmp_path_factory.mktemp(name_of(case))
        of_case = program(case, folder)
        return Trained(of_case, run(of_case, {}, folder / "plain").succeeded().results)

    return train


def check_refusals(done: Finished, ranks: int) -> None:
    """Any of several ranks may be refused first. It ends the others, wherever they are by then."""
    if ranks == 1:
        return check_refused(done)
    refused = done.output.count(REFUSED)
    assert 1 <= refused <= ranks, done.output
    as_refused = 0
    for rank in range(ranks):
        begin = f"[ebbtide rank {rank}] "
        lines = [line for line in done.output.splitlines() if line.startswith(begin)]
        assert lines, done.output
        said = lines[1:]
        # Lines after the first one. A rank that others end has its summary as the last line.
        as_refused += len(said) == 1 and "needed at least" in said[0]
        needed = said[:-1] if said and " ended after " in said[-1] else said
        assert len(needed) <= 1 and all("needed at least" in line for line in needed), done.output
    assert as_refused >= refused, done.output


def trains_in_what_is_named(case: Case, by_stock: Trained, folder: Path) -> int:
    """Returns the budget, in MiB."""
    trained = by_stock.program
    done = run(trained, {"EBBTIDE_BUDGET": str(TOO_SMALL)}, folder / "refused")
    assert done.status != 0
    over = "more than the budget of 2.0 MiB: training goes on over the budget for at most 3 more"
    assert done.said(over), done.output
    check_refusals(done, trained.ranks)
    # The history of L-BFGS grows after the steps that were recorded: the error says by how much.
    told = done.output
    for relaunch in range(2 if case[0] == "lbfgs" else 1):
        budget = named(done)
        variables = {"EBBTIDE_BUDGET": f"{budget}MiB"}
        done = run(trained, variables, folder / f"named-{relaunch}")
        told += done.output
        assert REFUSED not in done.output, told
        if done.status == 0:
            break
    assert done.status == 0, told
    assert done.succeeded().results == by_stock.plain
    return budget


# Up to 40 s: three or four runs each, of two ranks in some, which spill at the least budget.
@pytest.mark.parametrize("case", USUAL, ids=name_of)
def test_the_named_budget_trains(
    case: Case, trained: Callable[[Case], Trained], tmp_path: Path
) -> None:
    trains_in_what_is_named(case, trained(case), tmp_path)


# In each turn in a larger budget than the one that is named, too: it holds at least as much.
@pytest.mark.nightly
@pytest.mark.parametrize("more", ["1MiB", "3MiB", "quarter"])
@pytest.mark.parametrize("case", every_case(), ids=name_of)
def test_every_named_budget_trains(
    case: Case, more: str, trained: Callable[[Case], Trained], tmp_path: Path
) -> None:
    of_case = trained(case)
    budget = trains_in_what_is_named(case, of_case, tmp_path)
    budget += {"1MiB": 1, "3MiB": 3, "quarter": budget // 4}[more]
    variables = {"EBBTIDE_BUDGET": f"{budget}MiB"}
    assert run(of_case.program, variables, tmp_path / "more").succeeded().results == of_case.plain
