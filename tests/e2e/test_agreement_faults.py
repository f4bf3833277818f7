"""Faults while the ranks of a pipeline agree on its plan: real processes of torchrun over Gloo.

What in_agreement.py does on one of the ranks comes in a round that is open, or keeps it open.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ebbtide
import pytest
from conftest import MIB
from processes import (
    LIBRARIES,
    PYTHON,
    ROOT,
    Finished,
    Program,
    free_port,
    run,
    torchrun,
)

EXAMPLE = str(ROOT / "examples" / "train_pipeline.py")
STEPS = 12
SIZE = f"--width 64 --heads 2 --length 128 --batch 2 --steps {STEPS} --layers".split()
MOST_TRAFFIC = 100_000  # bytes of a rank: what the design allows


def with_fault(fault: str, *launcher: str, ranks: int = 2, layers: int = 4) -> Program:
    script = str(ROOT / "tests" / "e2e" / "in_agreement.py")
    command = (*torchrun(ranks, *launcher), script, fault, EXAMPLE, *SIZE, str(layers))
    return Program(command, ranks=ranks)


# Plain peaks are 10.3 and 9.6 MiB. The planner's time-outs, and the time that it takes, are a tenth
# of what they are.
BUDGETED = {
    "EBBTIDE_BUDGET": f"rank0={13 * MIB // 2},rank1=6MiB",
    "EBBTIDE_LOG": "debug",
    "LD_PRELOAD": str(LIBRARIES / "libebbtide_quick_planner.so"),
}
# For tests that wait for no time-out: time is real, so none passes on a busy machine.
PATIENT = BUDGETED | {"QUICK_PLANNER_TIMES": "1"}
CAME_TO = "debug: (?:the job's plan of round 1 is used from|round 1 came to no plan:)"
STORE_LEFT = "the job's store cannot be used any more"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(with_fault("none"), {}, tmp_path_factory.mktemp("plain")).succeeded()


def run_until_over(
    program: Program,
    variables: dict[str, str],
    folder: Path,
    said: str = CAME_TO,
    ranks: int | None = None,
) -> Finished:
    """The ranks wait in the fifth step until `ranks` ranks, or all, have said such a line."""
    over = folder / "over"
    heard: set[str] = set()

    def watch(line: str) -> None:
        if " (torch " in line:  # a rank's first line; a job that is run again has it, too
            heard.clear()
            over.unlink(missing_ok=True)
        if line_of := re.match(rf"\[ebbtide rank (\d)\] {said}", line):
            heard.add(line_of[1])
        if len(heard) == (ranks or program.ranks):
            over.touch()

    return run(program, variables, folder, watch=watch)


def trained(done: Finished, like: Finished) -> None:
    """To its end, within its budgets and with the same bits."""
    done.succeeded()
    assert done.results == like.results
    for report in done.reports:
        assert report["mapped_peak_bytes"] <= (report["budget_bytes"] or 2**60)
        assert not report["pass_through"], done.output


def said_to_users(done: Finished, rank: int, pattern: str) -> list[str]:
    """Without the codes at their ends."""
    said = rf"^\[ebbtide rank {rank}\] (?!debug: )(.*?)(?: \[EB\d+\])?$"
    lines = re.findall(said, done.output, re.MULTILINE)
    return [line for line in lines if re.search(pattern, line)]


def came_to(done: Finished, rank: int, number: int) -> str:
    """What a round came to on a rank."""
    found = re.findall(
        rf"\[ebbtide rank {rank}\] debug: (?:the job's plan of round {number} is (used) from|"
        rf"round {number} came to no plan: ([^\n]+))",
        done.output,
    )
    assert len(found) == 1, done.output
    return found[0][0] or found[0][1]


def agreed(done: Finished, number: int) -> None:
    """All use a plan, or all know that there is no better one than their own."""
    outcomes = {came_to(done, rank, number) for rank in range(len(done.reports))}
    assert len(outcomes) == 1, done.output
    assert outcomes & {"used", "the ranks' own plans make the quickest step that was found"}


def missing(rank: int) -> str:
    return (
        f"no plan for the whole job: rank {rank} did not report within 60 s; "
        "each rank trains on with its own"
    )


def exchanged_little(done: Finished) -> None:
    for report in done.reports:
        job = report["job"]
        assert job["store_bytes_written"] > 300, job  # of its report alone
        assert job["store_bytes_written"] + job["store_bytes_read"] <= MOST_TRAFFIC, job


# --- Ranks that die, are late, or never come ------------------------------------------------------


@pytest.mark.nightly  # three lives of a job, and a time-out
def test_ranks_that_die_and_one_that_is_a_minute_late_do_not_keep_a_job_from_its_plan(
    plain: Finished, tmp_path: Path
) -> None:
    """torchrun forms the job twice, from its start: rank 0 is killed while the other one waits for
    its word, then rank 1 while rank 0 waits for its report. In the third life rank 1 is late."""
    variables = BUDGETED | {
        # Else torch's next life finds addresses of the one before in the store, and may hang.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    done = run(with_fault("killed-then-late", "--max-restarts", "2"), variables, tmp_path)
    assert re.findall(r"rank (\d) is killed", done.output) == ["0", "1"], done.output
    for rank in range(2):
        assert len(said_to_users(done, rank, r"\(torch ")) == 3, done.output  # its lives
    assert not list(tmp_path.glob("core*"))
    trained(done, plain)
    assert done.reports[1]["steps"] > done.reports[0]["steps"] == STEPS  # it has some of its own
    assert all(report["recomputed_ops"] > 0 for report in done.reports)
    assert said_to_users(done, 0, "plan for the whole job") == [missing(1)]
    assert not said_to_users(done, 1, "plan for the whole job")
    assert came_to(done, 0, 1) == "some ranks did not report in time"
    agreed(done, 2)
    exchanged_little(done)


@pytest.mark.nightly  # it waits for a time-out
def test_a_rank_without_the_plugin_costs_the_others_a_time_out(
    plain: Finished, tmp_path: Path
) -> None:
    done = run_until_over(with_fault("without-plugin"), BUDGETED, tmp_path, ranks=1)
    assert [report["rank"] for report in done.reports] == [0]
    trained(done, plain)
    assert said_to_users(done, 0, "plan for the whole job") == [missing(1)]
    assert not done.said(r"\[ebbtide rank 1\]"), done.output


# --- Ranks that are not alike ---------------------------------------------------------------------


@pytest.mark.nightly  # tests/plugin/job/job_agreement_test.cpp stands for it
def test_ranks_with_other_versions_are_named(plain: Finished, tmp_path: Path) -> None:
    done = run_until_over(with_fault("other-version"), PATIENT, tmp_path)
    trained(done, plain)
    version, torch = (re.escape(done.reports[0][key]) for key in ("version", "torch_version"))
    assert version == re.escape(ebbtide.__version__)
    others, other_torch = (re.escape(done.reports[1][key]) for key in ("version", "torch_version"))
    assert (others != version) and (other_torch != torch)
    refused = (
        "the versions differ: "
        f"rank 0: ebbtide {version} with torch {torch}; "
        f"rank 1: ebbtide {others} with torch {other_torch}"
    )
    said = f"^no plan for the whole job: {refused}; each rank trains on with its own$"
    assert len(said_to_users(done, 0, said)) == 1, done.output
    assert not said_to_users(done, 1, "plan for the whole job")
    assert all(re.fullmatch(refused, came_to(done, rank, 1)) for rank in range(2))


# --- The store ------------------------------------------------------------------------------------

SERVER = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
print("serving", flush=True)
time.sleep(3600)
"""


@contextmanager
def served_store() -> Iterator[dict[str, str]]:
    """A process that has nothing but the job's store, as in_agreement.py is told of it."""
    port = str(free_port())
    command = (PYTHON, "-c", SERVER, port)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "serving\n"
            yield {"STORE_PORT": port, "STORE_PROCESS": str(server.pid)}
        finally:
            server.kill()


# Some 25 s: the ranks wait for a store that answers no more.
def test_ranks_whose_store_drops_train_on(plain: Finished, tmp_path: Path) -> None:
    with served_store() as server:
        program = with_fault("store-killed")
        done = run_until_over(program, PATIENT | server, tmp_path, STORE_LEFT)
    trained(done, plain)
    for rank in range(2):
        told = said_to_users(done, rank, "the job's store|plan for the whole job")
        assert len(told) == 1, done.output
        assert told[0].startswith(f"{STORE_LEFT}: ")
        assert told[0].endswith("; this rank trains on with its own plan")


@pytest.mark.nightly  # the one before stands for it
def test_ranks_whose_store_stands_still_train_on_and_end(plain: Finished, tmp_path: Path) -> None:
    """They end while a thread of the plugin's waits in torch for an answer."""
    with served_store() as server:
        done = run(with_fault("store-stopped"), BUDGETED | server, tmp_path)
    trained(done, plain)
    for rank in range(2):
        told = rf"rank {rank}\] .*{STORE_LEFT}: it did not answer in"
        assert done.said(told), done.output


@pytest.mark.nightly  # of two: test_job_plan.py
def test_four_ranks_exchange_little(tmp_path: Path) -> None:
    # Two layers each, and three on the last, as of two ranks; but up to four microbatches at once.
    variables = PATIENT | {"EBBTIDE_BUDGET": "10MiB"}
    done = run_until_over(with_fault("over", ranks=4, layers=8), variables, tmp_path).succeeded()
    assert done.reports[0]["recomputed_ops"] > 0
    agreed(done, 1)
    exchanged_little(done)
