"""Somebody sets the clock while a run trains: durations stay what they were."""

import json
import math
import tempfile
from pathlib import Path

import pytest
from conftest import measure
from processes import LIBRARIES, run, script

HOUR = 3600.0


@pytest.mark.nightly  # 40 s: the clock is set in each of many steps
def test_the_clock_goes_back_and_far_ahead(tmp_path: Path) -> None:
    program = script("tests/e2e/clock_train.py")
    measured = measure(program, tmp_path)
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as sockets:
        variables = {
            "EBBTIDE_BUDGET": str(measured.budget(0.5)),
            "EBBTIDE_SOCKET_DIR": sockets,
            "EBBTIDE_JOB_ID": "job",
            "EBBTIDE_PERFETTO": str(tmp_path / "trace-{rank}.json"),
            "EBBTIDE_TEXTFILE": str(tmp_path / "series-{rank}.prom"),
            "LD_PRELOAD": str(LIBRARIES / "libebbtide_set_clock.so"),
        }
        done = run(program, variables, tmp_path / "run").succeeded()
    assert done.results == measured.plain.results
    assert done.report["recomputed_ops"] > 0 and done.report["budget_violations"] == 0
    told = json.loads((tmp_path / "run" / "told.json").read_text())
    # The clock did go: two hours back within step 6, three days ahead within step 10.
    assert told[5]["now"] < told[4]["now"] - HOUR and told[9]["now"] > told[8]["now"] + 60 * HOUR
    for moment in told[1:]:  # a step is over when the next one begins
        # The calendar is that of the moment; no duration is measured by it.
        assert abs(moment["now"] - moment["last_step_unix_seconds"]) < HOUR
        assert 0 < moment["step_seconds"]["last"] < 60 and 0 < moment["step_seconds"]["median"] < 60
        assert 0 <= moment["recompute_ratio"] < 1 and moment["state"] == "training"
    series = (tmp_path / "series-0.prom").read_text()
    (total,) = (
        float(line.split()[1])
        for line in series.splitlines()
        if line.startswith("ebbtide_step_duration_seconds_sum")
    )
    assert 0 < total < 600 and math.isfinite(total)
    trace = json.loads((tmp_path / "trace-0.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert slices and all(0 <= one["dur"] < 600e6 for one in slices)
    begun = [one["ts"] for one in slices]
    assert max(begun) - min(begun) < 600e6  # microseconds: no step lies days after another
