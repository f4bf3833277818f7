"""The zoo's models plain, measured and under budgets, as Markdown: ./dev bench zoo

Every figure printed is measured in this run. Slowdowns are medians of the steps after the sixth,
against EBBTIDE=1 before and after. A budget is a share of the activation bytes: what of them is
left when the rest of the plain peak stays.
"""

import argparse
import re
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from _demo_runs import ROOT, WARM_UP_STEPS, Example, Run, run

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import zoo

FOLDER = ROOT / "build" / "zoo"
FAMILIES = ("torchvision_models", "transformer_models", "other_models")
RANDOM_SHAPES = "transformer_models.gpt2_lengths"
RANDOM_SHAPES_STEPS = 5  # times as many as of the others
MIB = 1024 * 1024

MODELS = """\
| model | activations | recomputable | smallest budget | smallest without spilling | \
step at 50 % | the same, nothing offloaded | at the smallest without spilling | at the smallest | \
offloaded + spilled a steady step, of each | violations | bits |
|---|---|---|---|---|---|---|---|---|---|---|---|"""
CHECKPOINTS = """\
| model | blocks | plain peak | checkpointed: real peak | step | Ebbtide: real peak | step | \
step against checkpointed |
|---|---|---|---|---|---|---|---|"""
SHAPES = """\
| model | steps | plain peak | budget | real peak (mapped) | violations | spilled | all steps | \
against stock | bits |
|---|---|---|---|---|---|---|---|---|---|"""


@dataclass
class Model:
    name: str
    steps: int

    def run(self, label: str, variables: dict[str, str], *options: str) -> Run:
        script = str(ROOT / "tests" / "e2e" / "zoo_train.py")
        command = (sys.executable, script, self.name, "--steps", str(self.steps), *options)
        if variables:
            variables = {"EBBTIDE_LOG": "debug"} | variables  # what each step spilled
        print(f"{self.name}: {label}", file=sys.stderr, flush=True)
        folder = FOLDER / f"{self.name}-{label}"
        done = run(Example(self.name, self.name, command), variables, folder, lambda _: None)
        done.results = [result[self.name] for result in done.results]
        return done

    def measured(self, label: str, *options: str) -> Run:
        done = self.run(label, {"EBBTIDE": "1"}, *options)
        if failed(done):
            raise RuntimeError(f"{self.name}, {label}: status {done.status}")
        return done

    def budgeted(self, label: str, budget: int, offload: str = "auto") -> "Budgeted":
        variables = {"EBBTIDE_BUDGET": str(budget), "EBBTIDE_OFFLOAD": offload}
        return Budgeted(budget, self.run(label, variables))


@dataclass
class Budgeted:
    budget: int
    run: Run

    @property
    def report(self) -> dict:
        return self.run.reports[0] if self.run.reports else {}


@dataclass
class Baseline:
    plain: Run
    measured: Run

    @property
    def peak(self) -> int:
        return self.measured.reports[0]["plain_peak_bytes"]

    @property
    def activations(self) -> int:
        return self.measured.reports[0]["activation_bytes"]

    def slowdown(self, done: Run) -> str:
        if failed(done):
            return "failed"
        return f"{done.median_step(0) / self.measured.median_step(0):.3f}"

    def share(self, budget: int) -> str:
        """Of the activation bytes, what the budget leaves room for."""
        return f"{(budget - (self.peak - self.activations)) / self.activations:.0%}"

    def same_bits(self, runs: Iterable[Run]) -> str:
        """Of those that came to their end."""
        same = all(done.same_numbers(self.plain, 0) for done in runs if not failed(done))
        return "equal" if same else "DIFFERENT"


def failed(done: Run) -> bool:
    return done.status != 0 or not done.results


def mib(value: float) -> str:
    return f"{value / MIB:,.0f} MiB"


def violations(runs: Iterable[Budgeted]) -> str:
    most = max(each.report.get("budget_violations", 0) for each in runs)
    return f"VIOLATED {most}" if most else "0"


def on_disk(done: Budgeted) -> str:
    """Offloaded by the plan, and spilled by the median steady step."""
    steps = re.findall(r"step \d+:.*? spilled (\d+)", "\n".join(done.run.messages))
    steady = [int(step) for step in steps[WARM_UP_STEPS:]]
    if not steady:
        return "–"
    offloaded = (done.report.get("plan") or {}).get("offloaded_bytes", 0)
    return f"{offloaded / MIB:,.0f} + {mib(statistics.median(steady))}"


def recomputable(report: dict) -> str:
    """Where it is less than 95 %: and most of the rest why not."""
    kept = report.get("kept_bytes") or {}
    total = report["recomputable_bytes"] + sum(kept.values())
    if total == 0:
        return "–"
    share = report["recomputable_bytes"] / total
    return f"{share:.1%}" + (f" ({max(kept, key=kept.get)})" if share < 0.95 else "")


def model_row(model: Model) -> tuple[Baseline, str]:
    base = Baseline(model.run("plain", {}), model.measured("measured"))
    half_bytes = base.peak - base.activations // 2
    half = model.budgeted("half", half_bytes)
    runs = [half, model.budgeted("half-computed", half_bytes, "never")]
    smallest = half.report.get("smallest_feasible_budget_bytes") or 0
    planned = 0
    if smallest:
        least = model.budgeted("smallest", smallest)
        # It is reported where a plan spills; else the budget is met by a plan alone.
        planned = least.report.get("smallest_budget_without_spilling_bytes") or smallest
        runs += [model.budgeted("planned", planned) if planned > smallest else least, least]
    base.measured.repeats.append(model.measured("measured-again"))
    cells = [
        model.name.partition(".")[2],
        mib(base.activations),
        recomputable(half.report or base.measured.reports[0]),
        base.share(smallest) if smallest else "–",
        base.share(planned) if planned else "–",
        *[base.slowdown(each.run) for each in runs],
        *["–"] * (4 - len(runs)),
        ", ".join(on_disk(each) for each in runs),
        violations(runs),
        base.same_bits(each.run for each in runs),
    ]
    return base, f"| {' | '.join(cells)} |"


def checkpoint_row(model: Model, base: Baseline) -> str:
    """At the checkpointed program's largest live bytes, which bound even what we have mapped."""
    blocks = ", ".join(kind.__name__ for kind in zoo.program(model.name).blocks)
    theirs = model.measured("checkpointed", "--checkpointed")
    peak = theirs.reports[0]["peak_bytes"]
    ours = model.budgeted("as-checkpointed", peak)
    ratio = "–" if failed(ours.run) else f"{ours.run.median_step(0) / theirs.median_step(0):.3f}"
    cells = [
        model.name.partition(".")[2],
        blocks,
        mib(base.peak),
        mib(peak),
        base.slowdown(theirs),
        mib(ours.report.get("mapped_peak_bytes", 0)),
        base.slowdown(ours.run),
        ratio,
    ]
    return f"| {' | '.join(cells)} |"


def shapes_row(steps: int) -> str:
    """Each step has another length; the budget is 60 % of what the longest takes."""
    model = Model(RANDOM_SHAPES, steps * RANDOM_SHAPES_STEPS)
    base = Baseline(model.run("plain", {}), model.measured("measured"))
    done = model.budgeted("60-percent", base.measured.reports[0]["peak_bytes"] * 6 // 10)
    report = done.report
    took = [sum(each.steady_steps(0)) for each in (base.plain, done.run) if not failed(each)]
    cells = [
        "gpt2, 32 to 512 words",
        str(model.steps),
        mib(base.measured.reports[0]["peak_bytes"]),
        mib(done.budget),
        mib(report.get("mapped_peak_bytes", 0)),
        violations([done]),
        mib(report.get("spilled_bytes", 0)),
        f"{took[-1]:.1f} s",
        f"{took[1] / took[0]:.3f}" if len(took) == 2 else "failed",
        base.same_bits([done.run]),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    names = [name for name in zoo.programs(FAMILIES) if name != RANDOM_SHAPES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="names with commas between; default: all")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, help="the tables go there too")
    options = parser.parse_args()
    wanted = options.models.split(",") if options.models else [*names, "random_shapes"]
    shapes = "random_shapes" in wanted
    chosen = [name for name in names if {name, name.partition(".")[2]} & set(wanted)]
    if not chosen and not shapes:
        parser.error(f"no such model; there are: random_shapes, {', '.join(names)}")

    lines: list[str] = []
    say(lines, MODELS)
    checkpoints = []
    for name in chosen:
        model = Model(name, options.steps)
        base, row = model_row(model)
        say(lines, row)
        if zoo.program(name).blocks:
            checkpoints.append(checkpoint_row(model, base))
    if checkpoints:
        say(lines, "\n".join(["", CHECKPOINTS, *checkpoints]))
    if shapes:
        say(lines, f"\n{SHAPES}\n{shapes_row(options.steps)}")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return 1 if re.search("DIFFERENT|VIOLATED|failed", "\n".join(lines)) else 0


def say(lines: list[str], line: str) -> None:
    lines.append(line)
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
