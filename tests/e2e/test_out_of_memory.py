"""What the error says where a budget is too small for what comes after the first steps."""

import re
from pathlib import Path

import pytest
from conftest import MIB
from out_of_memory import LAYERS, TOO_MUCH
from processes import Finished, run, script
from small_disk import small_disk

# As batch-size finders look for it.
OUT_OF_MEMORY = "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory: "
BUDGET = 20  # MiB: the steps have 6 MiB of weights and as much of gradients


def started(place: str, variables: dict[str, str], folder: Path) -> Finished:
    return run(script("tests/e2e/out_of_memory.py", place), variables, folder)


def trains(place: str, folder: Path, budget: int = BUDGET) -> Finished:
    return started(place, {"EBBTIDE_BUDGET": str(budget * MIB)}, folder).succeeded()


def fails(place: str, folder: Path, budget: int = BUDGET) -> tuple[str, dict]:
    return told_by(trains(place, folder, budget), budget)


def told_by(done: Finished, budget: int = BUDGET) -> tuple[str, dict]:
    """The message, and what the program knows of its memory, in MiB."""
    assert done.report["budget_violations"] == 0
    message = done.results[0]["message"]
    lines = message.splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) < 350, message
    assert f"Budget {budget}.0 MiB; " in lines[1]
    return message, done.results[0]["known"]


def shares(message: str) -> dict[str, tuple[float, int]]:
    """MiB and blocks, by what made them; 0 blocks where they were not counted."""
    found = re.findall(r"^  ([\d.]+) (B|KiB|MiB)  (.+?)(?:, (\d+) blocks?)?$", message, re.M)
    scale = {"B": 1 / MIB, "KiB": 1 / 1024, "MiB": 1.0}
    return {name: (float(size) * scale[unit], int(n or 0)) for size, unit, name, n in found}


def live(message: str) -> float:
    found = re.search(r"([\d.]+) MiB in live blocks", message)
    assert found, message
    return float(found[1])


def needed(message: str) -> int:
    found = re.search(r"needs at least EBBTIDE_BUDGET=(\d+)MiB", message)
    assert found, message
    return int(found[1])


def check_sums(message: str, asked_for: int) -> None:
    by_op = shares(message)
    # Each is rounded to a tenth.
    assert sum(size for size, _ in by_op.values()) == pytest.approx(live(message), abs=0.5)
    assert list(by_op.values()) and 2 <= len(by_op) <= 7, message
    # Slots of small blocks may hold back a page or two; the setting is rounded up.
    assert live(message) + asked_for <= needed(message) <= live(message) + asked_for + 1.2, message


def test_in_the_forward_pass(tmp_path: Path) -> None:
    message, _ = fails("forward", tmp_path)
    assert message.startswith(f"{OUT_OF_MEMORY}{TOO_MUCH}.0 MiB asked for by aten::cat.\n")
    check_sums(message, TOO_MUCH)
    by_op = shares(message)
    # Half of the layers have run: their weights were read, and each saved what its product gave.
    # The time that products took decides which of them the plan drops in the forward pass.
    assert by_op["parameters"] == (LAYERS / 2, LAYERS / 2)
    size, blocks = by_op["aten::mm"]
    assert size == blocks and 1 <= blocks <= LAYERS / 2
    rest = "from before the step (parameters not read yet, optimizer's state, data)"
    assert by_op[rest] == (LAYERS / 2, 0)
    assert re.search(r"placed for at large block \d+: 1.0 MiB expected, 64.0 MiB asked", message)
    assert re.search(r"\(For the steps before it: EBBTIDE_BUDGET=\d+MiB\.\)", message)


def test_where_the_spill_disk_is_full(tmp_path: Path) -> None:
    """The first steps spill, and 64 KiB hold nothing of 1 MiB. A plan of replays keeps the budget
    then, but for the allocation that is too much."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        variables = {"EBBTIDE_BUDGET": str(BUDGET * MIB), "EBBTIDE_SPILL_DIR": str(disk)}
        done = started("forward", variables, tmp_path / "run").succeeded(over_budget=True)
    message = done.results[0]["message"]
    assert message.startswith(f"{OUT_OF_MEMORY}{TOO_MUCH}.0 MiB asked for by aten::cat.\n")
    cause = f"cannot write to the spill file in {disk}: No space left on device (errno 28)"
    advice = "Make room there, or name another folder: EBBTIDE_SPILL_DIR."
    assert f"\nNothing can be spilled: {cause}. {advice}" in message, done.output
    assert done.report["followed_steps"] > 0, done.output


def test_in_the_backward_pass(tmp_path: Path) -> None:
    message, known = fails("backward", tmp_path)
    assert message.startswith(f"{OUT_OF_MEMORY}{TOO_MUCH}.0 MiB asked for by GreedyBackward.\n")
    check_sums(message, TOO_MUCH)
    by_op = shares(message)
    # Of the layers behind it the gradients are there.
    assert by_op["gradients"] == (known["gradients"], LAYERS / 2)
    assert by_op["parameters"] == (known["parameters"], LAYERS)
    assert by_op["aten::mm"][1] >= LAYERS / 2


def test_in_the_optimizer(tmp_path: Path) -> None:
    """Adam, from some step on: twice the weights' 6 MiB are more than 20 less 12 leave."""
    message, known = fails("optimizer", tmp_path)
    assert message.startswith(f"{OUT_OF_MEMORY}1.0 MiB asked for.\n")
    check_sums(message, 1)
    by_op = shares(message)
    assert by_op["gradients"] == (known["gradients"], LAYERS) == (LAYERS, LAYERS)
    assert by_op["parameters"] == (LAYERS, LAYERS)
    size, blocks = by_op["since backward began (optimizer, data)"]
    assert size == pytest.approx(known["states"], abs=0.1) and blocks >= known["states"]
    assert "large block" in message and "none expected, 1.0 MiB asked for" in message


@pytest.mark.parametrize("place", ["evaluation", "evaluation_by_hand"])
def test_in_an_evaluation(place: str, tmp_path: Path) -> None:
    message, known = fails(place, tmp_path)
    size, _ = shares(message)["made under no_grad since the last update (evaluation?)"]
    assert size >= known["held"] >= 2, message


def test_in_an_evaluation_where_training_needs_no_plan(tmp_path: Path) -> None:
    """Nobody observes the allocator: 60 less 12 MiB, of which one is the batch."""
    message, known = fails("evaluation", tmp_path, budget=60)
    by_op = shares(message)
    size, blocks = by_op["aten::linear in no training step (evaluation, data)"]
    assert size == blocks >= known["held"] >= 40, message
    assert by_op["gradients"] == (LAYERS, LAYERS), message


def test_outputs_that_are_kept(tmp_path: Path) -> None:
    """1 MiB a step."""
    done = trains("kept_outputs", tmp_path)
    message, known = told_by(done)
    kept = r"([\d.]+) MiB  kept from step to step: \S+ \w+ at step \d+, \1 MiB now, made by "
    found = re.search(kept, message)
    assert found and float(found[1]) == pytest.approx(known["held"], abs=1.2), message
    # The first output is kept by the 11th step; said again where it has doubled, no more.
    grown = (
        r"^\[ebbtide rank 0\] what lives when a step begins has grown from 7\.0 MiB at step 2 to "
    )
    kept = r"; the last step kept 1\.0 MiB more, made by aten::gelu"
    lines = re.findall(rf"{grown}(\S+) MiB at step (\d+){kept}", done.output, re.M)
    assert lines == [("8.0", "12"), ("9.0", "13")], done.output


def test_the_named_budget_is_enough_and_no_more(tmp_path: Path) -> None:
    """Between steps 12 MiB live: blocks of 1 MiB fill the rest of the budget."""
    message, known = fails("between_steps", tmp_path / "first")
    assert known["held"] == BUDGET - 2 * LAYERS
    assert needed(message) == BUDGET + 1
    assert shares(message)["since backward began (optimizer, data)"][0] == known["held"]
    message, known = fails("between_steps", tmp_path / "second", budget=needed(message))
    assert known["held"] == BUDGET - 2 * LAYERS + 1
