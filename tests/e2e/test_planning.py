"""The `ebbtide` program, as a process: every verb, its JSON keys, exit codes and messages."""

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from processes import LIBRARIES, ROOT, TIMEOUT_SECONDS

pytestmark = pytest.mark.quick

EBBTIDE = LIBRARIES.parent / "bin" / "ebbtide"
STEP = ROOT / "tests" / "scheduler" / "data" / "cnn_step.json"
FEASIBLE, BAD_INPUT, INFEASIBLE = 0, 2, 3
# Work ends the search: a deadline may pass before it has found anything.
QUICK = ("--deadline", "1000", "--option", "work=1000000")
PLAN_KEYS = {
    "planner": str,
    "asked": str,
    "note": type(None),
    "feasible": bool,
    "optimal": bool,
    "budget_bytes": int,
    "peak_bytes": int,
    "lower_bound_bytes": int,
    "seconds": float,
    "base_seconds": float,
    "overhead_ratio": float,
    "recomputed_ops": int,
    "plan_seconds": float,
}

# x -> op 0 -> value 1 -> op 1 -> value 2; then events that read value 2 and value 1. 10 bytes and
# 1 ns each; the program lets go of value 1 after op 1. Kept: values 1 and 2 during op 1 and the
# first event, 20 bytes; value 1 twice made: the same, as op 1 reads one and writes the other.
OPS = [
    {"name": "f0", "duration_ns": 1, "rerunnable": True, "inputs": [0], "outputs": [1]},
    {"name": "f1", "duration_ns": 1, "rerunnable": True, "inputs": [1], "outputs": [2]},
    {"name": "b1", "duration_ns": 1, "backward": True, "inputs": [2], "outputs": []},
    {"name": "b0", "duration_ns": 1, "backward": True, "inputs": [1], "outputs": []},
]
VALUES = [{"bytes": 10, "pinned": True}, {"bytes": 10, "natural_last": 1}, {"bytes": 10}]


def ebbtide(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(EBBTIDE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def ran(*arguments: object, status: int = FEASIBLE) -> str:
    done = ebbtide(*arguments)
    assert done.returncode == status, done.stderr
    assert done.stderr == ""
    return done.stdout


def refused(*arguments: object) -> str:
    done = ebbtide(*arguments)
    assert done.returncode == BAD_INPUT, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.strip()
    return done.stderr


def graph_file(folder: Path, ops: list[dict] = OPS, values: list[dict] = VALUES) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps({"format": "ebbtide-graph-1", "ops": ops, "values": values}))
    return path


def changed(items: list[dict], index: int, **fields: object) -> list[dict]:
    return [item | fields if i == index else item for i, item in enumerate(items)]


# --- planners -------------------------------------------------------------------------------------


def test_planners_are_listed_with_their_options() -> None:
    rows = json.loads(ran("planners", "--json"))
    assert rows[-1]["name"] == "auto"
    for row in rows:
        assert row.keys() == {"name", "source", "guarantee", "options"}
        assert row["source"] and row["guarantee"]
        for option in row["options"]:
            assert option.keys() == {"name", "values", "meaning"}
    text = ran("planners")
    for row in rows:
        assert row["name"] in text and row["guarantee"] in text
        assert all(option["meaning"] in text for option in row["options"])


# --- plan -----------------------------------------------------------------------------------------


def plan(*arguments: object, status: int = FEASIBLE) -> dict:
    row = json.loads(ran("plan", *arguments, "--json", status=status))
    assert {key: type(value) for key, value in row.items()} == PLAN_KEYS
    assert row["peak_bytes"] >= row["lower_bound_bytes"]
    assert row["seconds"] == pytest.approx(row["base_seconds"] * (1 + row["overhead_ratio"]))
    return row


def test_plan_within_a_share_of_the_plain_peak() -> None:
    plain = plan(STEP, "--budget", "100%")
    assert plain["feasible"] and plain["recomputed_ops"] == 0 and plain["overhead_ratio"] == 0
    row = plan(STEP, "--budget", "80%", *QUICK)
    assert row["feasible"] and row["recomputed_ops"] > 0
    assert row["budget_bytes"] == plain["budget_bytes"] * 8 // 10
    assert row["peak_bytes"] <= row["budget_bytes"]


def test_plan_prints_what_is_recomputed() -> None:
    text = ran("plan", STEP, "--budget", "80%", *QUICK)
    assert ": feasible, peak " in text.splitlines()[0]
    assert " x aten::" in text


def test_a_budget_that_cannot_be_met(tmp_path: Path) -> None:
    # Below what op 1 needs: its input and its output.
    row = plan(graph_file(tmp_path), "--budget", "19", status=INFEASIBLE)
    assert not row["feasible"] and not row["optimal"]
    assert row["peak_bytes"] == row["lower_bound_bytes"] == 20
    text = ran("plan", graph_file(tmp_path), "--budget", "19", status=INFEASIBLE)
    assert "infeasible, the smallest peak found is 20 of 20 plain (budget 19, " in text


def test_minimize_peak_has_no_budget_to_miss(tmp_path: Path) -> None:
    row = plan(graph_file(tmp_path), "--minimize", "peak")
    assert row["feasible"] and row["optimal"]
    assert (row["budget_bytes"], row["peak_bytes"]) == (0, 20)
    step = plan(STEP, "--minimize", "peak", *QUICK)
    assert step["peak_bytes"] < plan(STEP, "--budget", "80%", *QUICK)["peak_bytes"]


def test_options_reach_the_planner() -> None:
    arguments = ("plan", STEP, "--planner", "greedy", "--budget", "70%", "--threads", "2")
    row = json.loads(ran(*arguments, "--option", "work=0", "--seed", "3", "--json"))
    assert row["planner"] == "greedy"
    assert "'work' is not a number: 'many'" in refused(*arguments, "--option", "work=many")
    assert "greedy has: work" in refused(*arguments, "--option", "speed=1")
    assert "--option work: write name=value" in refused(*arguments, "--option", "work")
    assert "twice" in refused(*arguments, "--option", "work=1", "--option", "work=2")
    assert "unknown planner 'nobody'; known: " in refused(
        "plan", STEP, "--planner", "nobody", "--budget", "70%"
    )


def test_a_deadline_of_nothing_still_gives_a_schedule(tmp_path: Path) -> None:
    out = tmp_path / "schedule.json"
    done = ebbtide("plan", STEP, "--budget", "50%", "--deadline", "0", "--out", out)
    assert done.returncode in (FEASIBLE, INFEASIBLE), done.stderr
    assert ran("check", STEP, out).startswith("legal: ")


# --- check ----------------------------------------------------------------------------------------


def test_check_says_what_plan_said(tmp_path: Path) -> None:
    out = tmp_path / "schedule.json"
    row = plan(STEP, "--budget", "80%", *QUICK, "--out", out)
    assert json.loads(out.read_text())["format"] == "ebbtide-schedule-1"
    checked = json.loads(ran("check", STEP, out, "--budget", "80%", "--json"))
    for key in checked:
        assert checked[key] == row[key]
    text = ran("check", STEP, out, "--budget", row["peak_bytes"] - 1, status=INFEASIBLE)
    assert "over the budget of " in text


def test_check_names_the_first_step_that_is_not_legal(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.json"

    def told(*steps: list) -> str:
        schedule.write_text(json.dumps({"format": "ebbtide-schedule-1", "steps": steps}))
        return refused("check", graph_file(tmp_path), schedule)

    assert "not legal" in told(["run", 0], ["drop", 1], ["run", 1])
    assert "not legal" in told(["run", 7])
    assert "step 1: unknown kind 'skip'" in told(["run", 0], ["skip", 1])


# --- curve ----------------------------------------------------------------------------------------


def test_curve_never_rises(tmp_path: Path) -> None:
    svg = tmp_path / "curve.svg"
    arguments = ("curve", STEP, "--points", "5", "--deadline", "0.5", "--threads", "2")
    curve = json.loads(ran(*arguments, "--json", "--svg", svg))
    assert curve.keys() == {
        "asked",
        "base_peak_bytes",
        "base_seconds",
        "lower_bound_bytes",
        "points",
    }
    points = curve["points"]
    assert len(points) == 5
    assert points[0]["budget_bytes"] == curve["lower_bound_bytes"]
    assert points[-1]["budget_bytes"] == curve["base_peak_bytes"]
    assert points[-1]["seconds"] == curve["base_seconds"]
    for point in points:
        assert point["feasible"] == (point["peak_bytes"] <= point["budget_bytes"])
        assert point["seconds"] >= point["lower_bound_seconds"] or not point["feasible"]
    for first, second in zip(points, points[1:], strict=False):
        assert first["budget_bytes"] < second["budget_bytes"]
        assert first["lower_bound_seconds"] >= second["lower_bound_seconds"]
        if first["feasible"]:
            assert second["feasible"] and first["seconds"] >= second["seconds"]
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "at least" in ran("curve", graph_file(tmp_path), "--points", "2")


# --- formats --------------------------------------------------------------------------------------

# One op that makes 8 bytes from nothing. The chain is a loss alone: its backward reads the input
# of 2 bytes and the 4 that were saved, and makes the input's gradient of 2.
ONE_OP = {
    "kusumoto": '1 1\n0 8 _\nforward\n0 1\n0\nReLU\n{"rank": 0}\n',
    "moccasin": '{"nodes": [{"id": 0, "duration": 1, "out_cost": 8}], "links": []}',
    "chain": json.dumps(
        {
            "format": "ebbtide-chain-1",
            "activation_bytes": [2],
            "saved_bytes": [4],
            "forward_workspace_bytes": [0],
            "backward_workspace_bytes": [0],
            "forward_seconds": [1.0],
            "backward_seconds": [2.0],
        }
    ),
}


@pytest.mark.parametrize("format", ONE_OP)
def test_formats_are_told_and_can_be_named(format: str, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    path.write_text(ONE_OP[format])
    told = plan(path, "--budget", "100%")
    assert told["budget_bytes"] == 8
    named = plan(path, "--budget", "100%", "--format", format)
    assert named["base_seconds"] == told["base_seconds"]
    assert plan(path, "--budget", "100%", "--model", "paper")["feasible"]
    assert "graph" in refused("plan", path, "--budget", "100%", "--format", "graph")


# --- input that is wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "values", "message"),
    [
        ([], VALUES, "has no ops"),
        (changed(OPS, 1, inputs=[3]), VALUES, "ops[1].inputs[0]: value 3 does not exist"),
        (changed(OPS, 1, outputs=[1]), VALUES, "value 1 is made by ops[0] already"),
        (changed(OPS, 0, inputs=[2]), VALUES, "ops[0].inputs[0]: value 2 is made by ops[1], not"),
        (changed(OPS, 1, inputs=[1, 1]), VALUES, "ops[1].inputs[1]: value 1 is listed twice"),
        (changed(OPS, 2, duration_ns=-1), VALUES, "op 2 (b1) has a negative duration"),
        (changed(OPS, 2, duration_ns=float("nan")), VALUES, "line 1: "),
        (OPS, changed(VALUES, 1, bytes=-1), "value 1 has negative bytes"),
        (OPS, changed(VALUES, 1, bytes=2**63), "values[1]: bytes: 9223372036854775808 is not"),
        (OPS, changed(VALUES, 1, bytes=2**62), "the graph's bytes do not fit 60 bits"),
    ],
)
def test_a_wrong_graph(ops: list[dict], values: list[dict], message: str, tmp_path: Path) -> None:
    path = graph_file(tmp_path, ops, values)
    told = refused("plan", path, "--budget", "15")
    assert told.startswith(f"ebbtide: {path}: ") and message in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[" * 1_000_000, "line 1: nested deeper than 64"),
        ('{"format": "ebbtide-graph-9"}', "of no known format"),
        (STEP.read_text()[:-2], "line 1: "),
        ('{"format": "ebbtide-graph-1",\n"ops": [],\n"values": [}', "line 3: "),
        ("\x00\x01\x02", "line 1: "),
    ],
)
def test_a_damaged_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_text(text)
    for verb in (["plan", path, "--budget", "1"], ["curve", path], ["check", path, STEP]):
        assert message in refused(*verb)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(2**28 + 1)  # takes no room on the disk
    assert "is larger than 256 MiB" in refused("plan", path, "--budget", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a verb is missing; see ebbtide --help"),
        (("plan", STEP), "--budget SIZE or --minimize peak is required"),
        (("plan", STEP, "--budget", "1", "--minimize", "peak"), "excludes --minimize"),
        (("plan", STEP, "--minimize", "time"), "--minimize"),
        (("plan", STEP, "--budget", "30GB"), "--budget=30GB: write 30GiB (30 × 2^30 bytes)"),
        (("plan", STEP, "--budget", "0"), "--budget=0: this is not more than zero"),
        (("plan", STEP, "--budget", "101%"), "over 100 %"),
        (("plan", STEP, "--budget", "1", "--deadline", "nan"), "--deadline"),
        (("plan", STEP, "--budget", "1", "--deadline", "-1"), "--deadline"),
        (("plan", STEP, "--budget", "1", "--threads", "0"), "--threads"),
        (("plan", STEP, "--budget", "1", "--model", "guess"), "--model"),
        (("plan", STEP, "--budget", "1", "--model", "paper"), "a trace stands for itself"),
        (("plan", STEP, "--budget", "1", "--format", "onnx"), "unknown format 'onnx'; known: auto"),
        (("plan", STEP, "--budget", "1", "--format", "graph"), "format is not 'ebbtide-graph-1'"),
        (("plan", "/no/such/file", "--budget", "1"), "cannot read /no/such/file: No such file"),
        (("plan", ROOT, "--budget", "1"), "Is a directory"),
        (("plan", STEP, "--budget", "100%", "--out", "/no/folder/x"), "cannot write /no/folder/x"),
        (("plan", STEP, "--budget", "100%", "--out", "/dev/full"), "cannot write /dev/full"),
        (("curve", STEP, "--points", "1"), "--points"),
        (("check", STEP, STEP), "unknown key"),
    ],
)
def test_a_wrong_command_line(arguments: tuple, message: str) -> None:
    assert message in refused(*arguments)


# 20 functions that read nothing. Any set of these functions is a lower set: there are a million.
INDEPENDENT = "20 20\n" + "".join(f"{i} 8 _\n" for i in range(20))
INDEPENDENT += "".join(f'forward\n0 1\n{i}\nReLU\n{{"rank": {i}}}\n' for i in range(20))


def test_another_planner_than_was_asked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "independent"
    path.write_text(INDEPENDENT)
    exact = (path, "--model", "paper", "--planner", "kusumoto-exact", "--deadline", "2")
    why = "the graph has more than the 6000 lower sets that kusumoto-exact lists"
    said = f"kusumoto-exact was asked, kusumoto-approx answers: {why}"
    row = json.loads(ran("plan", *exact, "--minimize", "peak", "--json"))
    assert (row["asked"], row["planner"]) == ("kusumoto-exact", "kusumoto-approx")
    assert row["note"].startswith(why)
    first, second, *_ = ran("plan", *exact, "--minimize", "peak").splitlines()
    assert first.startswith(said) and second.startswith("kusumoto-approx: ")
    curve = json.loads(ran("curve", *exact, "--points", "2", "--json"))
    assert curve["asked"] == "kusumoto-exact"
    assert curve["points"][0]["planner"] == "kusumoto-approx"
    assert curve["points"][0]["note"].startswith(why)
    assert said in ran("curve", *exact, "--points", "2")
