"""Runs `ebbtide plan` for benchmarks/scheduler.py; `ebbtide check` judges each schedule again."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Skipped(Exception):
    """This row cannot be measured here: why."""


@dataclass(frozen=True)
class Plan:
    row: dict  # what `ebbtide plan --json` printed
    seconds: float  # of the process: reading the graph and the judges included
    cpu_seconds: float  # the same, free of what else runs on the machine
    resident_bytes: int  # most, of the process

    @property
    def overhead_percent(self) -> float:
        return 100 * self.row["overhead_ratio"]

    @property
    def ratio(self) -> float:
        return 1 + self.row["overhead_ratio"]

    @property
    def feasible(self) -> bool:
        return self.row["feasible"]


class Bench:
    def __init__(self, program: Path, data: Path | None, long_seconds: float):
        self.program, self.data, self.long_seconds = program, data, long_seconds
        self.made = ROOT / "build" / "bench"
        self.made.mkdir(parents=True, exist_ok=True)
        listed = json.loads(subprocess.check_output([program, "planners", "--json"]))
        self.planners = {row["name"]: {o["name"] for o in row["options"]} for row in listed}

    def published(self, path: str) -> Path:
        if self.data is None:
            raise Skipped("EBBTIDE_PUBLISHED_DATA names no folder")
        found = self.data / path
        if not found.exists():
            raise Skipped(f"no {found}")
        return found

    def make(self, name: str, write: Callable[[Path], object]) -> Path:
        path = self.made / name
        write(path)
        return path

    def expect(self, planner: str, options: tuple[str, ...] = ()) -> None:
        if planner not in self.planners:
            raise Skipped(f"no planner {planner} yet")
        for option in options:
            name = option.partition("=")[0]
            if name not in self.planners[planner]:
                raise Skipped(f"{planner} has no option {name}")

    def plan(
        self,
        graph: Path,
        planner: str,
        *goal: str,
        options: tuple[str, ...] = (),
        model: str = "real",
        deadline: float = 60,
        threads: int = 1,
    ) -> Plan:
        self.expect(planner, options)
        schedule = self.made / "schedule.json"
        command = [self.program, "plan", graph, "--planner", planner, "--model", model, "--json"]
        command += [*goal, "--deadline", str(deadline), "--threads", str(threads)]
        command += [word for option in options for word in ("--option", option)]
        plan = _run([*command, "--out", schedule])
        self._judge(plan, [graph, schedule, "--model", model])
        return plan

    def quickest(self, *arguments: object, **more: object) -> Plan:
        """Of three runs: the others of a busy machine are no measure of the planner."""
        plans = (self.plan(*arguments, **more) for _ in range(3))  # type: ignore[arg-type]
        return min(plans, key=lambda plan: plan.row["plan_seconds"])

    def _judge(self, plan: Plan, arguments: list[str | Path]) -> None:
        checked = json.loads(subprocess.check_output([self.program, "check", *arguments, "--json"]))
        for key in ("peak_bytes", "recomputed_ops"):
            if checked[key] != plan.row[key]:
                raise RuntimeError(f"check says {key} {checked[key]}, plan {plan.row[key]}")

    def plain_peak(self, graph: Path, model: str = "real") -> int:
        """The peak with nothing recomputed."""
        row = self.plan(graph, "auto", "--budget", "100%", model=model, deadline=0).row
        return row["budget_bytes"]


def _run(command: list[str | Path]) -> Plan:
    start = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stderr
    output = process.stdout.read()
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise RuntimeError(f"status {process.returncode}: {errors.strip()}")
    return Plan(
        json.loads(output),
        time.monotonic() - start,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024,
    )


def cpu(plan: Plan) -> str:
    return f"whole process {plan.cpu_seconds:.2f} s of CPU"


def overhead(plan: Plan) -> str:
    return f"+{plan.overhead_percent:.2f} %" if plan.feasible else "infeasible"


def found_by(plan: Plan) -> str:
    note = f" ({plan.row['note']})" if plan.row["note"] else ""
    return f"found by {plan.row['planner']}{note}"
