"""The budget that a refusal names trains: at once, whatever the first steps leave behind them."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import zoo
from conftest import MIB
from named_budgets import OPTIMIZERS, PLACES
from processes import Finished, Program, run, script, torchrun
from test_bad_input import REFUSED, check_refused
from test_zoo import without_times
from tiers import nightly_but

TOO_SMALL = 2 * MIB  # a step keeps more than that for its backward pass
# Other tests set `never`. As users have it plans may write values to the host.
BY_DEFAULT = "auto"

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
    """MiB: the largest that was named. Ranks that are refused at once may each name one."""
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


def within(budget: str, offload: str) -> dict[str, str]:
    return {"EBBTIDE_BUDGET": budget, "EBBTIDE_OFFLOAD": offload}


def trains_in_what_is_named(case: Case, by_stock: Trained, offload: str, folder: Path) -> int:
    """Returns the budget, in MiB."""
    trained = by_stock.program
    done = run(trained, within(str(TOO_SMALL), offload), folder / "refused")
    assert done.status != 0
    over = "more than the budget of 2.0 MiB: training goes on over the budget for at most 3 more"
    assert done.said(over), done.output
    check_refusals(done, trained.ranks)
    # The history of L-BFGS grows after the steps that were recorded: the error says by how much.
    told = done.output
    for relaunch in range(2 if case[0] == "lbfgs" else 1):
        budget = named(done)
        done = run(trained, within(f"{budget}MiB", offload), folder / f"named-{relaunch}")
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
    trains_in_what_is_named(case, trained(case), BY_DEFAULT, tmp_path)


# In each turn in a larger budget than the one that is named, too: it holds at least as much.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("more", "offload"), [("1MiB", "never"), ("3MiB", BY_DEFAULT), ("quarter", BY_DEFAULT)]
)
@pytest.mark.parametrize("case", every_case(), ids=name_of)
def test_every_named_budget_trains(
    case: Case, more: str, offload: str, trained: Callable[[Case], Trained], tmp_path: Path
) -> None:
    of_case = trained(case)
    budget = trains_in_what_is_named(case, of_case, offload, tmp_path)
    budget += {"1MiB": 1, "3MiB": 3, "quarter": budget // 4}[more]
    done = run(of_case.program, within(f"{budget}MiB", offload), tmp_path / "more")
    assert done.succeeded().results == of_case.plain


# --- ranks that differ ----------------------------------------------------------------------------

UNEQUAL = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rows = 4096 << 2 * dist.get_rank()  # of 256 bytes: 1 MiB, and 4 MiB
x, weight = torch.randn(rows, 64), torch.ones(64, requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.01)
for step in range(6):
    optimizer.zero_grad()
    (x * weight).sin().mean().backward()
    optimizer.step()
    dist.barrier()
print("trained", flush=True)
dist.destroy_process_group()
"""


# The rank that is refused first names the budget of rank 1, which needs some three times 4 MiB.
# Rank 0 may be refused as well, when rank 1 has gone and answers no more.
def test_one_budget_is_named_for_ranks_that_differ(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNEQUAL)
    program = Program((*torchrun(2), str(tmp_path / "train.py")), ranks=2)
    refused = run(program, {"EBBTIDE_BUDGET": "2MiB"}, tmp_path / "refused", out=False)
    assert refused.status != 0
    whose = r"\(of rank 1; (rank 0 needs \dMiB|the others need no more so far)\)"
    budget = named(refused)
    assert refused.said(rf"EBBTIDE_BUDGET={budget}MiB {whose}"), refused.output
    variables = {"EBBTIDE_BUDGET": f"{budget}MiB"}
    done = run(program, variables, tmp_path / "named", out=False).succeeded()
    assert done.output.count("trained") == 2, done.output


# --- the zoo --------------------------------------------------------------------------------------

# A refusal of these names the need of the steps so far.
GROW = {
    "changing_programs.curriculum": "each fourth step is larger than all before",
    "changing_programs.random_lengths_short_first": "the last step is the largest",
    "autograd_programs.tensor_hooks": "a hook and its tensor hold each other until Python looks",
}
# These are never refused.
GO_ON = {
    "transform_programs.functional_gradient": "without a step",
    "autograd_programs.anomaly_mode": "three backward passes of eight end well",
    "life_programs.notebook": "each error ends a cell, and the next one is run",
    "life_programs.halving": "it takes each error for one of the batch's size",
}


# A measured run of these tells nothing about a run with a budget.
UNTOLD = {
    "transform_programs.functional_gradient": "without a step",
    "autograd_programs.tensor_hooks": "Python looks at other times",
}


def of_zoo(name: str) -> Program:
    return script("tests/e2e/zoo_train.py", name, ranks=zoo.program(name).ranks)


# Up to 60 s: three runs of up to four ranks.
@pytest.mark.nightly
@pytest.mark.parametrize("offload", [BY_DEFAULT, "never"])
@pytest.mark.parametrize("name", [p for p in zoo.programs() if p not in GROW.keys() | GO_ON.keys()])
def test_the_budget_that_is_named_for_a_program_of_the_zoo_trains(
    name: str, offload: str, tmp_path: Path
) -> None:
    plain = without_times(run(of_zoo(name), {}, tmp_path / "plain").succeeded())
    refused = run(of_zoo(name), within(str(TOO_SMALL), offload), tmp_path / "refused")
    assert refused.status != 0 and REFUSED in refused.output, refused.output
    done = run(of_zoo(name), within(f"{named(refused)}MiB", offload), tmp_path / "named")
    assert without_times(done.succeeded()) == plain


# Up to 60 s: three runs of up to four ranks.
@pytest.mark.parametrize("offload", nightly_but({BY_DEFAULT}, [BY_DEFAULT, "never"]))
@pytest.mark.parametrize(
    "name",
    nightly_but({"changing_programs.curriculum"}, [p for p in zoo.programs() if p not in UNTOLD]),
)
def test_the_budget_that_a_measured_program_of_the_zoo_names_trains(
    name: str, offload: str, tmp_path: Path
) -> None:
    plain = without_times(run(of_zoo(name), {}, tmp_path / "plain").succeeded())
    variables = {"EBBTIDE": "1", "EBBTIDE_OFFLOAD": offload}
    measured = run(of_zoo(name), variables, tmp_path / "measured").succeeded()
    assert without_times(measured) == plain
    budget = max(report["smallest_feasible_budget_bytes"] for report in measured.reports)
    done = run(of_zoo(name), within(f"{-(-budget // MIB)}MiB", offload), tmp_path / "named")
    told = f"{measured.output}\n{done.output}"
    assert done.status == 0, told
    assert without_times(done.succeeded()) == plain, told
