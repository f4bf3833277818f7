"""What a program can see of its tensors is as in PyTorch alone: objects, errors, references, what a
mode sees dispatched."""

from pathlib import Path

import pytest
from likeness import CASES
from processes import code, run, script

PROGRAM = script("tests/e2e/likeness.py")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict:
    done = run(PROGRAM, {}, tmp_path_factory.mktemp("plain")).succeeded()
    assert done.results[0].keys() == CASES.keys()
    return done.results[0]


@pytest.mark.parametrize(
    "variables", [{"EBBTIDE": "1"}, {"EBBTIDE_BUDGET": "1GiB"}], ids=["measured", "budget"]
)
def test_program_sees_what_it_sees_without(
    variables: dict[str, str], plain: dict, tmp_path: Path
) -> None:
    found = run(PROGRAM, variables, tmp_path).succeeded().results[0]
    assert {name for name in CASES if found[name] != plain[name]} == set()


# Without a budget the first steps alone are recorded: each of these is one of them in its process.
@pytest.mark.parametrize(
    "cases",
    [
        "write a saved nested tensor,detach a saved input and let go of it,"
        "a mode sees outputs saved",
        "a mode sees inputs saved,a Function's saved tensors",
    ],
    ids=["errors", "objects"],
)
def test_program_sees_it_in_recorded_steps(cases: str, plain: dict, tmp_path: Path) -> None:
    program = script("tests/e2e/likeness.py", "--cases", cases)
    found = run(program, {"EBBTIDE": "1"}, tmp_path).succeeded().results[0]
    assert {name for name in found if found[name] != plain[name]} == set()
    assert ",".join(found) == cases


# 30 of 4 MiB, kept, and a budget of 40: counted, they go over it.
@pytest.mark.parametrize(
    "made", ["copy.deepcopy(x)", "torch.UntypedStorage(2**22)"], ids=["deepcopy", "storage"]
)
def test_storage_made_without_a_tensor_counts(made: str, tmp_path: Path) -> None:
    text = f"import copy, torch; x = torch.ones(2**20); kept = [{made} for _ in range(30)]"
    done = run(code(text), {"EBBTIDE_BUDGET": "40MiB"}, tmp_path, out=False)
    assert done.status == 0, done.output
    assert done.said("the budget was exceeded"), done.output
