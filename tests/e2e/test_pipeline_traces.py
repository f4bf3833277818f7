"""A rank's trace has its messages, the names of its actions and its backward passes, in order."""

import json
from pathlib import Path

import pytest
from conftest import measure
from processes import Finished, Program, run, script
from tiers import nightly_but

STEPS = 4  # of pipeline_train.py; the last one is not over when the process ends
RANKS = 2
ROW = 256 * 4  # bytes; 1024 of them a microbatch in the zoo's programs, 256 in those by hand

# What a rank sends and receives, and its backward passes: of 4 microbatches.
PROGRAMS = {
    "pipeline_programs.gpipe": (8, 4),
    "pipeline_programs.one_forward_one_backward": (8, 4),
    # Two of four stages each. The messages that cross ranks: three edges, both ways.
    "pipeline_programs.interleaved": (24, 8),
    # A stage's weights have a pass of their own, but for some at the end.
    "pipeline_programs.interleaved_zero_bubble": (24, None),
    "by_hand": (8, 4),
    "by_hand_batched": (8, 4),
    "by_hand_evaluating": (8, 4),
}


def pipeline(name: str) -> Program:
    return script("tests/e2e/pipeline_train.py", name, ranks=RANKS)


def told(trace: dict) -> list[list]:
    """As pipeline_train.py writes what it did."""
    told = []
    for kind, number, _ in trace["events"]:
        if kind == "message":
            receive, peer, size, _ = trace["messages"][number]
            told.append(["receive" if receive else "send", peer, size])
        elif kind in ("scope", "scope_end"):
            told.append([kind, trace["scopes"][number][0]])
        elif kind == "pass":
            told.append([kind])
    return told


def check_times(trace: dict) -> None:
    """Processor time goes on from mark to mark, and is no more than the time that passes."""
    last = 0
    for kind, number, at_ns in trace["events"]:
        if kind == "message":
            busy_ns = trace["messages"][number][3]
        elif kind in ("scope", "scope_end"):
            busy_ns = trace["scopes"][number][1 if kind == "scope" else 2]
        else:
            continue
        assert last <= busy_ns <= at_ns + 1_000_000  # both clocks are read one after the other
        last = busy_ns


EVERY_TIME = {"pipeline_programs.interleaved_zero_bubble", "by_hand"}


@pytest.mark.parametrize("name", nightly_but(EVERY_TIME, PROGRAMS))
def test_a_rank_did_what_its_trace_says(name: str, tmp_path: Path) -> None:
    variables = {"EBBTIDE": "1", "EBBTIDE_TRACE_DIR": str(tmp_path)}
    done = run(pipeline(name), variables, tmp_path).succeeded()
    messages, passes = PROGRAMS[name]
    for rank, result in enumerate(done.results):
        paths = {path.stem: path for path in tmp_path.glob(f"trace-{rank}-*.json")}
        assert sorted(paths) == [f"trace-{rank}-{step}" for step in range(1, STEPS)]
        for step in range(1, STEPS):
            trace = json.loads(paths[f"trace-{rank}-{step}"].read_text())
            assert told(trace) == result["steps"][step - 1]["done"]
            assert (trace["group_rank"], trace["group_size"]) == (rank, RANKS)
            assert len(trace["messages"]) == messages
            assert {(peer, size % ROW) for _, peer, size, _ in trace["messages"]} == {(1 - rank, 0)}
            kinds = [kind for kind, _, _ in trace["events"]]
            assert passes is None or kinds.count("pass") == passes
            check_times(trace)


def losses(done: Finished) -> list:
    return [[step["losses"] for step in rank["steps"]] for rank in done.results]


# Over 20 s: three jobs of two ranks.
def test_a_pipeline_by_hand_keeps_its_bits_within_a_budget(tmp_path: Path) -> None:
    baseline = measure(pipeline("by_hand"), tmp_path)
    assert losses(baseline.measured) == losses(baseline.plain)
    variables = {"EBBTIDE_BUDGET": str(baseline.budget(0.3))}
    done = run(baseline.program, variables, tmp_path / "budget").succeeded()
    assert done.results == baseline.plain.results
    assert not any(report["pass_through"] for report in done.reports), done.output
    assert any(report["recomputed_ops"] for report in done.reports), done.output
