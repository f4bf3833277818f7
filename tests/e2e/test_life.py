"""How programs end, or live with others: as in plain PyTorch, with what they printed until then."""

import re
import signal
from pathlib import Path

import pytest
from conftest import Baseline, measure
from life import STEPS
from processes import Finished, Program, run, script


def program(name: str) -> Program:
    return script("tests/e2e/life.py", name)


@pytest.fixture(scope="module")
def budget(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All of these programs train the same network."""
    folder = tmp_path_factory.mktemp("life")
    baseline: Baseline = measure(program("ends_with_a_graph"), folder)
    return str(baseline.budget(0.5))


def both(name: str, budget: str, folder: Path) -> tuple[Finished, Finished]:
    variables = {"EBBTIDE_BUDGET": budget}
    return run(program(name), {}, folder / "plain"), run(program(name), variables, folder / "own")


def losses(done: Finished) -> list[str]:
    return re.findall("loss (.*)", done.output)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("ends_with_a_graph", 0),
        pytest.param("ends_with_a_cycle", 0, marks=pytest.mark.nightly),
        pytest.param("ends_within_a_step", 3, marks=pytest.mark.nightly),
        ("ends_within_backward", 3),
        pytest.param("fails_within_backward", 1, marks=pytest.mark.nightly),
        ("is_interrupted", -signal.SIGINT),
        pytest.param("is_terminated", -signal.SIGTERM, marks=pytest.mark.nightly),
        ("trains_at_exit", 0),
    ],
)
def test_ends_as_it_does_in_plain_pytorch(
    name: str, status: int, budget: str, tmp_path: Path
) -> None:
    plain, own = both(name, budget, tmp_path)
    assert plain.status == status, plain.output
    assert own.status == status, own.output
    assert losses(own) == losses(plain) and len(losses(own)) >= STEPS
    if name != "is_terminated":
        assert own.report["recomputed_ops"] > 0
        assert not own.report["pass_through"] and own.report["budget_violations"] == 0


@pytest.mark.parametrize(  # test_batch_finders.py stands for smaller batches
    "name", ["is_interrupted_anywhere", pytest.param("halves_its_batch", marks=pytest.mark.nightly)]
)
def test_goes_on_with_the_same_bits(name: str, budget: str, tmp_path: Path) -> None:
    plain, own = both(name, budget, tmp_path)
    assert own.succeeded().results == plain.succeeded().results
    assert not own.report["pass_through"], own.output
    assert own.report["recomputed_ops"] > 0 and own.report["budget_violations"] == 0, own.output
    assert own.said("refused") == (name == "halves_its_batch"), own.output


@pytest.mark.parametrize(
    "variables",
    [pytest.param({"EBBTIDE": "1"}, marks=pytest.mark.nightly), {"EBBTIDE_BUDGET": "1GiB"}],
)
def test_goes_on_when_the_system_is_short(variables: dict[str, str], tmp_path: Path) -> None:
    """The budget has room, or there is none: the kernel refuses."""
    name = "goes_on_when_the_system_is_short"
    plain = run(program(name), {}, tmp_path / "plain").succeeded()
    own = run(program(name), variables, tmp_path / "own").succeeded()
    assert own.results == plain.results
    assert not own.report["pass_through"] and own.report["budget_violations"] == 0, own.output
    assert own.output.count("refused: ebbtide: out of memory") == 2, own.output
    assert own.output.count("It is the system that has no memory for it") == 2, own.output
    assert own.said(r"256.0 MiB asked for\.\n") and own.said("MiB asked for by aten::")


@pytest.mark.nightly  # a minute: locked pages are mapped one by one
def test_the_budget_holds_where_memory_is_locked(budget: str, tmp_path: Path) -> None:
    plain, own = both("locks_its_memory", budget, tmp_path)
    assert own.succeeded().results == plain.succeeded().results
    if own.said("no right to lock memory"):
        pytest.skip("no right to lock memory")
    assert own.report["budget_violations"] == 0 and not own.report["pass_through"], own.output
    assert own.report["mapped_peak_bytes"] <= int(budget)


@pytest.mark.nightly  # a minute: a child in each of many steps
def test_children_made_within_steps_train_on(tmp_path: Path) -> None:
    """Recorded steps, verification steps and steps under a plan alike. Half of a forward pass holds
    half of the activations: under such a budget none has been spilled by then."""
    baseline = measure(program("forks_within_steps"), tmp_path)
    plain, roomy = baseline.plain, baseline.budget(0.25)
    own = run(program("forks_within_steps"), {"EBBTIDE_BUDGET": str(roomy)}, tmp_path / "own")
    for done in (baseline.measured, own.succeeded()):
        assert done.results == plain.results
        assert not done.report["pass_through"], done.output
    assert own.report["recomputed_ops"] > 0 and own.report["placed_blocks"] > 0


@pytest.mark.nightly  # test_launchers.py stands for it
@pytest.mark.parametrize("name", ["spawns_trainers", "forks_trainers"])
def test_trains_in_other_processes(name: str, budget: str, tmp_path: Path) -> None:
    """Spawned ones each within the budget; forked ones without Ebbtide."""
    plain, own = both(name, budget, tmp_path)
    assert own.succeeded().results == plain.succeeded().results
    assert own.report["recomputed_ops"] > 0 and own.report["budget_violations"] == 0
