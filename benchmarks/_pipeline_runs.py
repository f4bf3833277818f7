"""Runs examples/train_pipeline.py in real processes: plain, measured, within budgets."""

import os
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from _demo_runs import ROOT, Example, Run, run

FOLDER = ROOT / "build" / "pipeline"
STAGES_A_RANK = {"1f1b": 1, "gpipe": 1, "interleaved": 2, "zero-bubble": 2}
SHORT_STEPS = 8  # of runs that only find a peak


@dataclass(frozen=True)
class Job:
    """One pipeline: what is trained, before anybody sets a budget."""

    schedule: str
    ranks: int
    layers: int
    width: int
    batch: int
    microbatches: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.schedule}-{self.ranks}"

    @property
    def blocks(self) -> int:
        """Of the stage that has most."""
        return -(-self.layers // (self.ranks * STAGES_A_RANK[self.schedule]))

    def example(self, checkpoint: int, steps: int) -> Example:
        options = {
            "--schedule": self.schedule,
            "--layers": self.layers,
            "--width": self.width,
            "--heads": self.width // 32,
            "--batch": self.batch,
            "--microbatches": self.microbatches,
            "--checkpoint": checkpoint,
            "--steps": steps,
        }
        launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
        script = str(ROOT / "examples" / "train_pipeline.py")
        words = (str(word) for pair in options.items() for word in pair)
        command = (*launcher, "--nproc-per-node", str(self.ranks), script, *words)
        return Example(self.name, self.name, command, self.ranks)


@dataclass(frozen=True)
class Variant:
    """A way to run a job."""

    label: str
    variables: dict[str, str] = field(default_factory=dict)  # none: stock torch
    checkpoint: int = 0  # blocks of each stage
    budgets: tuple[int, ...] = ()  # bytes, by rank


class Failure(Exception):
    pass


def start(job: Job, variant: Variant, steps: int) -> Run:
    """Again where Gloo aborted a process at its end (pytorch 179291)."""
    folder = FOLDER / f"{job.name}-{variant.label}"
    example = job.example(variant.checkpoint, steps)
    load = os.getloadavg()[0]
    for _ in range(3):
        done = run(example, variant.variables, folder, lambda _: None, scrape=False)
        if done.status == 0 or not aborted_at_its_end(folder, done):
            break
    median = f"{step_seconds(done):.3f} s a step" if done.status == 0 else f"status {done.status}"
    print(f"{job.name}: {variant.label}: {median}; load before {load:.1f}", flush=True)
    return done


def aborted_at_its_end(folder: Path, done: Run) -> bool:
    log = (folder / "output.log").read_text(errors="replace")
    return bool(done.results) and "terminate called without an active exception" in log


def required(job: Job, variant: Variant, steps: int) -> Run:
    done = start(job, variant, steps)
    if done.status != 0 or not done.results or (variant.variables and not done.reports):
        raise Failure(f"{job.name}, {variant.label}: status {done.status}, see {FOLDER.name}/")
    return done


def step_seconds(done: Run) -> float:
    """Median of the last half of the steps, of the slowest rank: they wait for each other."""
    return max(statistics.median(late_steps(result)) for result in done.results)


def late_steps(result: dict) -> list[float]:
    steps = result["step_seconds"]
    return steps[len(steps) // 2 :]


def peaks(done: Run) -> list[int]:
    """Largest live bytes, by rank: what is mapped for them is no less."""
    return [report["peak_bytes"] for report in done.reports]


def by_rank(budgets: tuple[int, ...]) -> str:
    return ",".join(f"rank{rank}={budget}" for rank, budget in enumerate(budgets))


def within(share: float, plain: list[int], offload: str) -> Variant:
    """Each rank within that share of its own peak."""
    budgets = tuple(int(share * peak) for peak in plain)
    variables = {"EBBTIDE_BUDGET": by_rank(budgets), "EBBTIDE_OFFLOAD": offload}
    return Variant(f"budget-{share:.0%}".replace("%", ""), variables, budgets=budgets)
