"""Which rank a process is under each launcher: docs/launchers.md has a row for each."""

import os
import re
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, free_port, run, script

MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def launched(how: str, budget: str, folder: Path, sockets: Path, *more: str) -> Finished:
    base = free_port(2)
    program = script("tests/e2e/launched_train.py", how, "--port", str(base + 1), *more)
    # One command, whose ranks write results and reports as torchrun's do.
    two = Program(program.command, ranks=2)
    asked = {
        "EBBTIDE_BUDGET": budget,
        "EBBTIDE_PORT": str(base),
        "EBBTIDE_SOCKET_DIR": str(sockets),
    }
    return run(two, asked if budget else {}, folder).succeeded(over_budget=True)


def check_ranks(done: Finished, sockets: Path) -> None:
    assert [(report["rank"], report["world_size"]) for report in done.reports] == [(0, 2), (1, 2)]
    assert done.results[0] == done.results[1]
    served = re.findall(
        r"rank (\d)\].*?(metrics http\S+, )?socket (\S+)/rank-(\d)\.sock", done.output
    )
    last = {rank: (bool(port), folder, name) for rank, port, folder, name in served}
    assert last["0"][0] and not last["1"][0], done.output  # local rank 0 alone has the port
    assert last["0"][1] == last["1"][1] and (last["0"][2], last["1"][2]) == ("0", "1")


@pytest.mark.parametrize("how", ["spawn", "fork", "notebook", "ray", "lightning", "late"])
def test_each_rank_has_its_own_budget_report_and_socket(
    how: str, tmp_path: Path, sockets: Path
) -> None:
    done = launched(how, "default=40%,rank1=600MiB", tmp_path, sockets, "--settle")
    check_ranks(done, sockets)
    if how != "late":  # those that find no group for 5 s warn as one that is alone
        assert "warning" not in done.output, done.output
    # 40 % of the machine over the two ranks on it; rank 1's entry goes before that.
    share = MACHINE_BYTES // 2 * 40 // 100
    assert abs(done.reports[0]["budget_bytes"] - share) <= 1
    assert done.reports[1]["budget_bytes"] == 600 * MIB


def test_a_forked_rank_trains_within_its_budget(tmp_path: Path, sockets: Path) -> None:
    """Plain its steps reach 37 MiB; each of the 24 saved values has 1 MiB."""
    plain = launched("fork", "", tmp_path / "plain", sockets)
    done = launched("fork", "28MiB", tmp_path / "budget", sockets, "--steps", "6")
    check_ranks(done, sockets)
    assert done.results == plain.results
    for report in done.reports:
        assert report["budget_violations"] == 0, done.output
        assert report["recomputed_ops"] + report["spilled_bytes"] > 0


def test_a_child_forked_after_training_began_says_that_it_is_not_managed(
    tmp_path: Path, sockets: Path
) -> None:
    done = launched("fork_trained", "1GiB", tmp_path, sockets, "--steps", "2")
    assert done.output.count("forked after its parent had begun to train") == 1, done.output
    assert [report["steps"] for report in done.reports] == [2]  # the parent's
