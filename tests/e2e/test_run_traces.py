"""What a run shows of itself: in torch.profiler, and as a file for Perfetto."""

import json
import re
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, code, run, script, tiny

SLACK = 1000  # microseconds between two clocks that are one
# torch reads its clock and the processor's counter one after the other. Between the two its thread
# may lose the processor, and all of its events are later or earlier by that.
SHIFT = 20_000


def events(trace: dict, phase: str, **fields: object) -> list[dict]:
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == phase and all(event.get(key) == value for key, value in fields.items())
    ]


def within(inner: dict, outer: dict, slack: float) -> bool:
    begin, end = outer["ts"] - slack, outer["ts"] + outer["dur"] + slack
    return begin <= inner["ts"] and inner["ts"] + inner["dur"] <= end


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory, tiny_budget: str) -> tuple[Finished, Finished, dict, dict]:
    """A run in stock torch, one with all traces on, torch.profiler's file of it and ours."""
    folder = tmp_path_factory.mktemp("looked_at")
    train = "tests/e2e/profiled_train.py"
    plain = run(script(train), {}, folder / "plain").succeeded()
    theirs = folder / "profiler.json"
    ours = folder / "run-{rank}.json"
    variables = {"EBBTIDE_BUDGET": tiny_budget, "EBBTIDE_PERFETTO": str(ours)}
    traced = run(script(train, "--profile", str(theirs)), variables, folder / "traced").succeeded()
    written = folder / "run-0.json"
    return plain, traced, json.loads(theirs.read_text()), json.loads(written.read_text())


def test_numbers_stay(looked_at) -> None:
    plain, traced, _, _ = looked_at
    assert traced.report["recomputed_ops"] > 0
    assert traced.results == plain.results


def test_the_profiler_shows_recompute(looked_at) -> None:
    _, _, theirs, _ = looked_at
    recomputed = events(theirs, "X", name="ebbtide::recompute")
    assert recomputed
    # What runs again is there too, as an op of its own within.
    ops = [op for op in events(theirs, "X", cat="cpu_op") if op["name"].startswith("aten::")]
    for one in recomputed:
        assert any(within(op, one, 0) and op["tid"] == one["tid"] for op in ops)


def test_both_files_have_one_clock(looked_at) -> None:
    _, _, theirs, ours = looked_at
    assert theirs["baseTimeNanoseconds"] == ours["baseTimeNanoseconds"]
    in_theirs = events(theirs, "X", name="ebbtide::recompute")
    begin = min(event["ts"] for event in events(theirs, "X", cat="cpu_op"))
    in_ours = [e for e in events(ours, "X", cat="recompute") if e["ts"] >= begin - SLACK]
    # Each replay is one event here and there.
    assert len(in_ours) == len(in_theirs)
    by_time = sorted(in_theirs, key=lambda event: event["ts"])
    for mine, outer in zip(sorted(in_ours, key=lambda event: event["ts"]), by_time, strict=True):
        assert within(mine, outer, SHIFT)
        assert mine["tid"] == outer["tid"]


def test_slices_nest_and_name_their_ops(looked_at) -> None:
    _, traced, _, ours = looked_at
    steps = events(ours, "X", cat="step")
    assert [step["name"] for step in steps] == [f"step {n}" for n in range(1, 9)]
    for kind in ("forward", "backward"):
        phases = events(ours, "X", name=kind)
        assert len(phases) == len(steps)
        # 2 ns: begin and length are rounded apart
        assert all(within(phase, step, 0.002) for phase, step in zip(phases, steps, strict=True))
    recomputed = events(ours, "X", cat="recompute")
    assert len(recomputed) == traced.report["recomputed_ops"]
    backward = events(ours, "X", name="backward")
    for one in recomputed:
        assert one["name"] == f"recompute {one['args']['op']}"
        assert one["args"]["op"].startswith("aten::")
        assert any(within(one, phase, SLACK) for phase in backward)
    facts = ours["otherData"]
    assert (facts["first_step"], facts["last_step"]) == (1, 8)
    assert (facts["lost_spans"], facts["lost_samples"]) == (0, 0)


def test_counters_tell_of_memory(looked_at, tiny_budget: str) -> None:
    _, traced, _, ours = looked_at
    counters = {
        name: [event["args"]["bytes"] for event in events(ours, "C", name=name)]
        for name in ("allocated", "mapped", "budget")
    }
    assert set(counters["budget"]) == {int(tiny_budget)}
    assert max(counters["mapped"]) <= int(tiny_budget)
    assert max(counters["allocated"]) <= traced.report["peak_bytes"]
    # The saved tensors of a step come and go: 3 blocks of 4096 x 128 floats and more.
    assert max(counters["allocated"]) - min(counters["allocated"]) > 3 * 2 * MIB
    for allocated, mapped in zip(counters["allocated"], counters["mapped"], strict=True):
        assert allocated <= mapped
    assert {event["pid"] for event in ours["traceEvents"]} == {0}


def test_spilled_values_are_shown(tmp_path: Path, tiny_baseline) -> None:
    """Steps that no plan is made for: what does not fit goes to the host and comes back."""
    written = tmp_path / "trace.json"
    variables = {
        "EBBTIDE_BUDGET": str(tiny_baseline.budget(0.5)),
        "EBBTIDE_PERFETTO": str(written),
    }
    done = run(tiny(steps=2), variables, tmp_path).succeeded()
    assert done.report["spilled_bytes"] > 0
    trace = json.loads(written.read_text())
    spilled = [event["args"]["bytes"] for event in events(trace, "X", name="spill")]
    assert sum(spilled) == done.report["spilled_bytes"]
    assert events(trace, "X", name="restore")


MANY_STEPS = """
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(25):
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_the_last_steps_are_kept(tmp_path: Path) -> None:
    written = tmp_path / "trace.json"
    variables = {"EBBTIDE": "1", "EBBTIDE_PERFETTO": str(written)}
    run(code(MANY_STEPS), variables, tmp_path, out=False).succeeded()
    trace = json.loads(written.read_text())
    # The last 20 of 25; nothing of the earlier ones.
    assert [e["args"]["step"] for e in events(trace, "X", cat="step")] == list(range(6, 26))
    begin = min(event["ts"] for event in events(trace, "X", cat="step"))
    assert all(event["ts"] >= begin for event in trace["traceEvents"] if event["ph"] != "M")


# Files of more than 8 KiB cannot be written, as on a disk that is full: the trace has more.
SHORT_DISK = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
sys.argv = ["tiny_train.py", "--steps", "3", *sys.argv[1:]]
sys.path.insert(0, "FOLDER")
runpy.run_path("FOLDER/tiny_train.py", run_name="__main__")
"""


def test_a_full_disk_costs_the_file_alone(tmp_path: Path) -> None:
    program = code(SHORT_DISK.replace("FOLDER", str(Path(__file__).parent)))
    written = tmp_path / "traces" / "trace.json"
    written.parent.mkdir()
    variables = {"EBBTIDE": "1", "EBBTIDE_REPORT": "", "EBBTIDE_PERFETTO": str(written)}
    done = run(program, variables, tmp_path)
    assert done.status == 0, done.output
    assert len(done.results) == 1
    assert done.said("warning: the trace could not be written to .*trace.json: File too large")
    assert list(written.parent.iterdir()) == []


# A disk that has room for what is recorded of the steps that are named alone: otherwise no file may
# have more than 64 bytes, and each has more. Of the steps the first three are recorded, and written
# when the next one begins; the report, as if it were step 6, at exit.
FILLING_DISK = """
import resource
import torch
def room(there):
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if there else 64, most))
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(1, 6):
    room(step - 1 in ROOM)
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
room(6 in ROOM)
"""


@pytest.mark.parametrize(
    ("room", "kept", "told"),
    [
        ((), [], [1]),
        ((2,), [2], [1, 3]),  # full again: told again
        ((1, 2), [1, 2], [3]),
    ],
)
def test_steps_that_find_no_room_are_told_once(room, kept, told, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    variables = {"EBBTIDE": "1", "EBBTIDE_TRACE_DIR": str(traces), "EBBTIDE_REPORT": ""}
    program = code(FILLING_DISK.replace("ROOM", str(room)))
    done = run(program, variables, tmp_path, out=False).succeeded()
    paths = {step: traces / f"trace-0-{step}.json" for step in (1, 2, 3)}
    assert sorted(traces.iterdir()) == [paths[step] for step in kept]  # and no part of one
    assert all(json.loads(paths[step].read_text())["ops"] for step in kept)
    said = re.findall(r"warning: the trace could not be written to (.*?); ", done.output)
    assert said == [f"{paths[step]}: File too large" for step in told], done.output


def test_a_report_that_finds_no_room_leaves_the_earlier_one(tmp_path: Path) -> None:
    report = tmp_path / "reports" / "run.json"
    report.parent.mkdir()
    report.write_text("{}")
    variables = {"EBBTIDE": "1", "EBBTIDE_REPORT": str(report)}
    full = run(code(FILLING_DISK.replace("ROOM", "()")), variables, tmp_path, out=False)
    assert full.status == 0, full.output
    assert full.said(f"warning: the report could not be written to {report}: File too large")
    assert report.read_text() == "{}"
    assert list(report.parent.iterdir()) == [report]
    roomy = run(code(FILLING_DISK.replace("ROOM", "(6,)")), variables, tmp_path, out=False)
    assert roomy.status == 0, roomy.output
    assert json.loads(report.read_text())["steps"] == 5
    assert list(report.parent.iterdir()) == [report]


def test_a_report_can_go_to_the_output(tmp_path: Path) -> None:
    """What is no file is written to, not replaced: not by root either."""
    variables = {"EBBTIDE": "1", "EBBTIDE_REPORT": str(tmp_path / "link")}
    (tmp_path / "link").symlink_to("/dev/stderr")
    program = code(FILLING_DISK.replace("ROOM", "range(9)"))
    done = run(program, variables, tmp_path, out=False).succeeded()
    assert (tmp_path / "link").is_symlink()
    assert '"steps": 5' in done.output


@pytest.mark.parametrize("path", ["/proc/trace.json", "missing/trace.json"])
def test_a_folder_that_cannot_be_written_is_refused(path: str, tmp_path: Path) -> None:
    done = run(tiny(steps=1), {"EBBTIDE": "1", "EBBTIDE_PERFETTO": path}, tmp_path)
    assert done.status == 2
    assert done.said("EBBTIDE_PERFETTO: no file can be made in the folder")


# --- memory snapshots


@pytest.fixture(scope="module")
def shown(tmp_path_factory, tiny_budget: str) -> dict:
    folder = tmp_path_factory.mktemp("snapshot")
    program = script("tests/e2e/snapping_train.py", str(folder / "step.pickle"))
    done = run(program, {"EBBTIDE_BUDGET": tiny_budget}, folder).succeeded()
    told = done.results[0]
    assert told["path"] == str(folder / "step.pickle")
    return told


def test_segments_are_whole(shown) -> None:
    segments = shown["snapshot"]["segments"]
    blocks = {}
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
            if block["state"] == "active_allocated":
                blocks[block["address"]] = block["size"]
        assert at == segment["address"] + segment["total_size"]
    # Whatever lives at the step's end is there: parameters for one, if not all at a block's start.
    at_starts = {p: size for p, size in shown["parameters"].items() if int(p) in blocks}
    assert len(at_starts) == len(shown["parameters"])
    assert all(blocks[int(p)] >= size for p, size in at_starts.items())


def test_what_was_freed_had_been_there(shown) -> None:
    (trace,) = shown["snapshot"]["device_traces"]
    live: dict[int, int] = {}
    before_step = 0
    for event in trace:
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            before_step += live.pop(event["addr"], None) is None
        else:
            assert event["action"] == "free_requested"
    # What is left lives at the end, in the segments.
    blocks = {
        block["address"]: block["size"]
        for segment in shown["snapshot"]["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    assert live.items() <= blocks.items()
    assert before_step < len(trace) / 4
    assert [e["time_us"] for e in trace] == sorted(e["time_us"] for e in trace)


def test_blocks_are_named_by_what_made_them(shown) -> None:
    (trace,) = shown["snapshot"]["device_traces"]
    made = {
        (frame["filename"], frame["name"])
        for event in trace
        if event["action"] == "alloc"
        for frame in event["frames"]
    }
    assert ("forward", "aten::linear") in made or ("forward", "aten::addmm") in made
    assert any(kind == "backward" and name.endswith("Backward0") for kind, name in made)
    assert any(kind == "ebbtide::recompute" and name.startswith("aten::") for kind, name in made)


def test_torchs_viewers_open_it(shown) -> None:
    assert all("MemoryViz.js" in page and len(page) > 2000 for page in shown["pages"])
    live = [
        block
        for segment in shown["snapshot"]["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    assert sum("active_allocated" in line for line in shown["blocks"].splitlines()) > 0
    assert len(shown["by_segment"].splitlines()) > 0
    assert "total_reserved" in shown["segsum"]
    assert shown["trace"].count("= ") > len(live) / 4


def test_one_at_a_time(shown) -> None:
    assert shown["second"].startswith("a snapshot of 1 step from step 9 on is not written yet")
