"""What one process's rehearsal found spares later ones theirs, and changes no number."""

import json
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, run, script

BUDGET = 27 * MIB  # see Branches: 24 MiB and what little else there is, 28 with one more kept
BLOCKS_BUDGET = 11 * MIB  # about two thirds of the plain peak


def program(*arguments: str) -> Program:
    return script("tests/e2e/audited_train.py", *arguments)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict:
    done = run(program(), {}, tmp_path_factory.mktemp("stock"))
    return done.succeeded().results[0]


def trained(folder: Path, name: str, *arguments: str, **variables: str) -> Finished:
    """With the cache that the runs in `folder` share."""
    given = {
        "EBBTIDE_BUDGET": str(BUDGET),
        "EBBTIDE_LOG": "debug",
        "EBBTIDE_AUDIT_CACHE": str(folder / "cache"),
    }
    return run(program(*arguments), given | variables, folder / name)


def cache_file(folder: Path) -> Path:
    (path,) = [path for path in (folder / "cache").iterdir() if path.suffix != ".lock"]
    return path


def notes(done: Finished) -> list[str]:
    return [line for line in done.output.splitlines() if "the audit cache" in line]


def expect_rehearsed(done: Finished) -> None:
    assert done.report["rehearsed_steps"] > 0 and done.report["audited"], done.output
    assert not done.report["audited_from_cache"], done.output


def expect_trusted(done: Finished) -> None:
    report = done.report
    assert report["rehearsed_steps"] == 0 and not report["audited"], done.output
    assert sum(report["audited_from_cache"].values()) > 0
    assert report["recomputed_ops"] > 0 and report["budget_violations"] == 0
    assert "are trusted: they were compared in an earlier process" in done.output
    assert not notes(done)


def test_a_second_process_rehearses_nothing(stock: dict, tmp_path: Path) -> None:
    first = trained(tmp_path, "first", PYTHONHASHSEED="1").succeeded()
    expect_rehearsed(first)
    assert first.results == [stock]
    assert cache_file(tmp_path).stat().st_mode & 0o777 == 0o600
    second = trained(tmp_path, "second", PYTHONHASHSEED="2").succeeded()
    expect_trusted(second)
    assert second.results == [stock]


@pytest.mark.nightly
def test_off_remembers_nothing(stock: dict, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    for name in ("first", "second"):
        done = trained(tmp_path, name, EBBTIDE_AUDIT_CACHE="off", **home).succeeded()
        expect_rehearsed(done)
        assert done.results == [stock]
    assert not (tmp_path / ".cache").exists()


def test_without_a_folder_it_is_in_the_users_cache(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "EBBTIDE_AUDIT_CACHE": ""}
    expect_rehearsed(trained(tmp_path, "first", **home).succeeded())
    expect_trusted(trained(tmp_path, "second", **home).succeeded())
    assert list((tmp_path / ".cache" / "ebbtide").iterdir())


def test_a_folder_that_cannot_be_written_is_told(stock: dict, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file" / "cache")
    done = trained(tmp_path, "named", EBBTIDE_AUDIT_CACHE=folder).succeeded()
    expect_rehearsed(done)
    (note,) = notes(done)
    assert folder in note and "Not a directory" in note
    home = {"XDG_CACHE_HOME": folder, "EBBTIDE_AUDIT_CACHE": ""}
    silent = trained(tmp_path, "default", **home).succeeded()
    expect_rehearsed(silent)
    assert not notes(silent)
    assert done.results == silent.results == [stock]


def another_torch(text: bytes) -> bytes:
    version = text.index(b"; torch ") + len(b"; torch ")
    return text[:version] + b"1.13.1" + text[text.index(b";", version) :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-30],
        pytest.param(lambda text: text.replace(b"1", b"2"), marks=pytest.mark.nightly),
        pytest.param(another_torch, marks=pytest.mark.nightly),
    ],
    ids=["torn", "changed", "another_torch"],
)
def test_a_file_that_is_not_as_it_was_written_is_ignored(damage, stock, tmp_path: Path) -> None:
    trained(tmp_path, "first").succeeded()
    path = cache_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    second = trained(tmp_path, "second").succeeded()
    expect_rehearsed(second)
    assert second.results == [stock]
    (note,) = notes(second)
    assert str(path) in note and "is not used" in note
    third = trained(tmp_path, "third").succeeded()  # it has been written anew
    expect_trusted(third)
    assert third.results == [stock]


@pytest.mark.parametrize(
    ("unseen", "message"),
    [
        ("refills", "gave other results"),
        # In bytes that a sample does not read.
        pytest.param("nudges", "gave other results", marks=pytest.mark.nightly),
        pytest.param("frees", "was resized", marks=pytest.mark.nightly),
    ],
)
def test_what_differs_today_is_rehearsed_tomorrow(
    unseen: str, message: str, stock: dict, tmp_path: Path
) -> None:
    trained(tmp_path, "first").succeeded()
    second = trained(tmp_path, "second", "--unseen", unseen)
    assert second.status == 1 and second.said(f"ebbtide: .*{message}"), second.output
    assert not second.results
    third = trained(tmp_path, "third", "--unseen", unseen).succeeded()
    assert third.report["rehearsed_steps"] > 0 or third.said("the rehearsal failed"), third.output
    assert third.report["rejected"].keys() == {"aten::add"}
    assert not third.report["audited_from_cache"]
    assert third.results == [stock]  # what is written there is none of the network's business
    fourth = trained(tmp_path, "fourth", "--unseen", unseen).succeeded()
    assert fourth.results == [stock]
    if unseen != "frees":  # known by now; that a replay failed is tried again
        assert fourth.report["rejected_from_cache"].keys() == {"aten::add"}
        assert not fourth.report["rejected"]


@pytest.mark.nightly
def test_trust_is_proven_by_a_step_that_ran_every_replay(tmp_path: Path) -> None:
    # The first step on the plan runs three of five replays: the next one compares all bytes again.
    once = ("--breaks", "1")
    stock = run(program(*once), {}, tmp_path / "stock").succeeded()
    trained(tmp_path, "first").succeeded()
    broken = trained(tmp_path, "broken", *once).succeeded()
    expect_trusted(broken)
    assert broken.results == stock.results
    nudged = trained(tmp_path, "nudged", *once, "--unseen", "nudges")
    assert nudged.status == 1 and nudged.said("ebbtide: .*gave other results"), nudged.output
    lines = nudged.output.splitlines()
    assert "step 2" in lines and "step 3" not in lines


@pytest.mark.nightly
def test_a_kernel_that_is_another_one_today_is_tried_as_in_a_rehearsal(tmp_path: Path) -> None:
    stock = run(program("--kernel", "draws"), {}, tmp_path / "stock").succeeded()
    budget = str(BLOCKS_BUDGET)
    trained(tmp_path, "first", "--kernel", "repeats", EBBTIDE_BUDGET=budget).succeeded()
    # What it gives is equal: but the numbers drawn after its replays would be others.
    second = trained(tmp_path, "second", "--kernel", "draws", EBBTIDE_BUDGET=budget)
    assert second.status == 1, second.output
    ended = r"ebbtide: the replay of aten::gelu was ended: it draws random numbers .* \[EB78\]"
    assert second.said(ended), second.output
    third = trained(tmp_path, "third", "--kernel", "draws", EBBTIDE_BUDGET=budget).succeeded()
    assert "aten::gelu" in third.report["rejected"], third.output
    assert third.results == stock.results


@pytest.mark.nightly
def test_an_op_that_never_repeats_costs_one_rehearsal_ever(tmp_path: Path) -> None:
    never = ("--kernel", "never_repeats")
    stock = run(program(*never), {}, tmp_path / "stock").succeeded()
    budget = str(9 * MIB)  # with 10 no plan computes a gelu again
    first = trained(tmp_path, "first", *never, EBBTIDE_BUDGET=budget).succeeded()
    second = trained(tmp_path, "second", *never, EBBTIDE_BUDGET=budget).succeeded()
    assert "aten::gelu" in first.report["rejected"], first.output
    assert not second.report["rejected"], second.output
    # The program's three blocks have the same gelu.
    assert second.report["rejected_from_cache"] == {"aten::gelu": 3}
    assert first.results == second.results == stock.results
    assert "differs " in cache_file(tmp_path).read_text()


def test_a_programs_signature_is_the_same_in_each_process(tmp_path: Path) -> None:
    signatures = []
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        variables = {"EBBTIDE_TRACE_DIR": str(tmp_path / seed), "PYTHONHASHSEED": seed}
        trained(tmp_path, f"run{seed}", EBBTIDE_AUDIT_CACHE="off", **variables).succeeded()
        trace = json.loads((tmp_path / seed / "trace-0-1.json").read_text())
        signatures.append((trace["signature"], [op[1] for op in trace["ops"]]))
    assert signatures[0] == signatures[1]
