"""EBBTIDE_TRACE_DIR: a recorded trace has every allocation, and can be planned by itself."""

import json
import subprocess
from pathlib import Path

import pytest
from processes import LIBRARIES, run, tiny

NONE = -1
STEPS = 6


def recorded(variables: dict[str, str], folder: Path) -> list[Path]:
    run(tiny(steps=STEPS), {**variables, "EBBTIDE_TRACE_DIR": str(folder)}, folder).succeeded()
    traces = sorted(folder.glob("trace-0-*.json"))
    assert traces
    return traces


def check_allocations(trace: dict) -> None:
    before_step = [before for _, before, _ in trace["blocks"]]
    during: dict[int, set[int]] = {}  # blocks that were allocated while an op ran
    running = NONE
    allocated, freed = set(), set()
    for kind, number, _ in trace["events"]:
        if kind == "begin":
            assert running == NONE
            running = number
            during[running] = set()
        elif kind == "end":
            assert running == number
            running = NONE
        elif kind == "alloc":
            assert number not in allocated and not before_step[number]
            allocated.add(number)
            if running != NONE:
                during[running].add(number)
        elif kind == "free":
            assert number not in freed
            assert number in allocated or before_step[number]
            freed.add(number)
    assert sorted(during) == list(range(len(trace["ops"])))
    new_storages = 0
    for producer, block, previous_epoch, *_ in trace["values"]:
        if producer == NONE or previous_epoch != NONE:
            continue  # from before the step, or written into a storage that is there
        new_storages += 1
        assert block in during[producer], trace["ops"][producer]
    assert new_storages >= 3 * 3  # of each of the blocks at least linear, gelu and norm
    # What the step saved is gone at its end; gradients and the optimizer's state may stay.
    saved = {trace["values"][value][1] for value in trace["use_value"] if value != NONE}
    assert saved & allocated <= freed


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return recorded({"EBBTIDE": "1"}, tmp_path_factory.mktemp("measured"))


def test_each_new_storage_has_its_allocation(measured: list[Path]) -> None:
    for path in measured:
        check_allocations(json.loads(path.read_text()))


def test_under_a_budget_too(tmp_path: Path, tiny_budget: str) -> None:
    for path in recorded({"EBBTIDE_BUDGET": tiny_budget}, tmp_path):
        check_allocations(json.loads(path.read_text()))


def test_a_programs_signature_is_the_same_in_each_process(tmp_path: Path) -> None:
    signatures = []
    for seed in ("1", "2"):  # so each has an interpreter of its own: addresses differ, and hashes
        variables = {"EBBTIDE": "1", "PYTHONHASHSEED": seed}
        trace = json.loads(recorded(variables, tmp_path / seed)[0].read_text())
        assert trace["signature"] and trace["ops"]
        signatures.append((trace["signature"], [op[1] for op in trace["ops"]]))
    assert signatures[0] == signatures[1]


def test_the_command_plans_a_recorded_step(measured: list[Path], tiny_budget: str) -> None:
    command = [str(LIBRARIES.parent / "bin" / "ebbtide"), "plan", str(measured[-1]), "--json"]
    done = subprocess.run([*command, "--budget", tiny_budget], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["feasible"]
    assert 0 < plan["peak_bytes"] <= int(tiny_budget)
