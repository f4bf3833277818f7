"""Steps that follow their plan take the addresses that were placed for their blocks."""

import re
from pathlib import Path

from conftest import measure
from processes import run, settled

GPT = settled(
    "examples/train_gpt.py",
    *"--layers 3 --width 128 --heads 4 --length 128 --batch 4 --steps 20".split(),
)
STEP = re.compile(r"debug: step (\d+): .* blocks placed (\d+), not as placed (\d+)")


def test_a_steady_step_is_placed_whole(tmp_path: Path) -> None:
    baseline = measure(GPT, tmp_path)
    variables = {"EBBTIDE_BUDGET": str(baseline.budget(0.5)), "EBBTIDE_LOG": "debug"}
    done = run(GPT, variables, tmp_path / "budgeted").succeeded()
    assert done.results == baseline.plain.results
    assert done.report["budget_violations"] == 0
    steps = [tuple(map(int, match.groups())) for match in STEP.finditer(done.output)]
    assert len(steps) == 20, done.output
    # Planned, verified, steady, twice recorded, placed: by the last steps that is over.
    said = re.search(
        r"(\d+) of (\d+) blocks placed by .*: ([\d.]+) MiB, their load ([\d.]+) MiB", done.output
    )
    assert said, done.output
    for _, placed, misplaced in steps[-2:]:
        assert placed >= int(said[1]) * 0.95 and misplaced <= int(said[2]) * 0.05, done.output
    assert float(said[3]) <= 1.05 * float(said[4]), said[0]
    assert done.report["placed_blocks"] >= sum(placed for _, placed, _ in steps)


def test_measured_steps_are_not_placed(tmp_path: Path) -> None:
    done = run(GPT, {"EBBTIDE": "1"}, tmp_path).succeeded()
    assert done.report["placed_blocks"] == 0 == done.report["misplaced_blocks"]
