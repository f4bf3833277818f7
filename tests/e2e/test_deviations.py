"""Steps that unseen do something else than was planned: the bits stay those of stock torch."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from conftest import MIB
from deviations import ROWS, STEADY, STEPS, VARIANTS, WIDTH
from processes import Finished, Program, run, script


def program(names: list[str], ranks: int) -> Program:
    return script("tests/e2e/deviations.py", "--variants", ",".join(names), ranks=ranks)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Finished]:
    """Results by variant of all programs with so many ranks, from one run: each seeds anew."""

    @cache
    def results(ranks: int) -> Finished:
        names = [name for name, variant in VARIANTS.items() if variant.ranks == ranks]
        return run(program(names, ranks), {}, tmp_path_factory.mktemp("stock")).succeeded()

    return results


@pytest.mark.parametrize("name", VARIANTS)
def test_same_bits(name: str, stock: Callable[[int], Finished], tmp_path: Path) -> None:
    variant = VARIANTS[name]
    variables = {
        "EBBTIDE_BUDGET": str(int(variant.budget_mib * MIB)),
        "EBBTIDE_ON_INFEASIBLE": "best-effort",  # a deviating step may need more than a planned one
    }
    done = run(program([name], variant.ranks), variables, tmp_path).succeeded()
    expected = [result[name] for result in stock(variant.ranks).results]
    assert [result[name] for result in done.results] == expected
    assert len(done.reports) == variant.ranks, done.output
    for report in done.reports:
        assert not report["pass_through"], done.output
        assert report["recomputed_ops"] > 0, done.output
        assert report["plan"]["active_from_step"] <= STEADY, done.output


def test_the_programs_do_what_they_say(stock: Callable[[int], Finished]) -> None:
    (results,) = stock(1).results
    message = f"modified by an inplace operation: [torch.FloatTensor [{ROWS}, {WIDTH}]]"
    refused = [loss for loss in results["overwrites_in_backward"]["losses"] if message in loss]
    assert len(refused) == STEPS - STEADY
    ranks = [result["reduces_in_forward"]["losses"] for result in stock(2).results]
    same = [first == second for first, second in zip(*ranks, strict=True)]
    assert same == [True] * STEADY + [False] * (STEPS - STEADY)
