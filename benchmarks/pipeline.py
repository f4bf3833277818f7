"""Pipelines within a budget for each rank, against what is set by hand: ./dev bench pipeline

Every figure printed is measured in this run. A budget is a share of a rank's own peak under
EBBTIDE=1. Runs of a job take turns; a ratio is of two runs of one turn, its median over the turns
is shown, and their range. Step times are medians of the last half of the steps.

set by hand: the first k blocks of each stage by torch.utils.checkpoint, the same k on all stages;
"full": all of them. Of those whose peak fits the budget on all ranks the fastest is the best single
setting. They run in stock torch and under EBBTIDE=1, and the faster of the two is compared.

--part steps       what is above
--part simulator   `ebbtide simulate` from traces of real ranks against their steps and peaks,
                   with everything kept and within budgets
--part hidden      recompute that does not lengthen a simulated step of eight stages
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field

from _demo_runs import Run
from _pipeline_runs import (
    FOLDER,
    SHORT_STEPS,
    Failure,
    Job,
    Variant,
    late_steps,
    peaks,
    required,
    start,
    step_seconds,
    within,
)
from _pipeline_simulator import (
    HIDDEN_JOBS,
    against_real_steps,
    hidden,
    hidden_lines,
    simulator_lines,
)

MIB = 1024 * 1024
FULL_AT_MOST = 0.85  # of the step time of full recompute
SINGLE_AT_MOST = 1.02  # of that of the best single setting


@dataclass
class Setting:
    """The first `checkpoint` blocks of each stage are computed again."""

    checkpoint: int
    peaks: list[int]  # bytes, by rank
    seconds: float  # a step, in the short run that found the peaks

    def fits(self, budgets: tuple[int, ...]) -> bool:
        return all(peak <= budget for peak, budget in zip(self.peaks, budgets, strict=True))


@dataclass
class Turns:
    """All turns of a job: by variant one run a turn."""

    job: Job
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def seconds(self, label: str) -> list[float]:
        return [step_seconds(done) for done in self.runs[label] if not failed(done)]

    def fastest_way(self, checkpoint: int) -> str:
        ways = by_hand(checkpoint)
        return min(ways, key=lambda way: statistics.median(self.seconds(way.label))).label

    def ratios(self, label: str, other: str) -> list[float]:
        """Turn by turn."""
        pairs = zip(self.runs[label], self.runs[other], strict=True)
        return [
            step_seconds(mine) / step_seconds(theirs)
            for mine, theirs in pairs
            if not failed(mine) and not failed(theirs)
        ]


def failed(done: Run) -> bool:
    return done.status != 0 or not done.results


def by_hand(checkpoint: int) -> list[Variant]:
    """The ways to run a setting."""
    label = f"checkpoint-{checkpoint}"
    return [
        Variant(label, checkpoint=checkpoint),
        Variant(f"{label}-measured", {"EBBTIDE": "1"}, checkpoint),
    ]


def settings_of(job: Job) -> list[Setting]:
    found = []
    for checkpoint in range(job.blocks + 1):
        variant = Variant(f"peak-{checkpoint}", {"EBBTIDE": "1"}, checkpoint)
        done = required(job, variant, SHORT_STEPS)
        found.append(Setting(checkpoint, peaks(done), step_seconds(done)))
    return found


def candidates(settings: list[Setting], budgets: tuple[int, ...]) -> list[int]:
    """Of those that fit: the fastest of the short runs, and the one that computes least again."""
    fitting = [setting for setting in settings if setting.fits(budgets)]
    if not fitting:
        return []
    quickest = min(fitting, key=lambda setting: setting.seconds)
    return sorted({fitting[0].checkpoint, quickest.checkpoint})


def bench(job: Job, options: argparse.Namespace) -> dict:
    settings = settings_of(job)
    plain = settings[0].peaks
    budgeted = [within(share, plain, options.offload) for share in options.budgets]
    tried = {each.label: candidates(settings, each.budgets) for each in budgeted}
    checkpoints = sorted({job.blocks, *(k for some in tried.values() for k in some)})
    variants = [Variant("stock"), Variant("measured", {"EBBTIDE": "1"}), *budgeted]
    variants += [way for checkpoint in checkpoints for way in by_hand(checkpoint)]
    turns = Turns(job, {variant.label: [] for variant in variants})
    for turn in range(options.turns):
        # Each turn in the other direction: a machine that slows down favours nobody.
        for variant in variants[:: 1 if turn % 2 == 0 else -1]:
            may_fail = bool(variant.budgets)
            done = (start if may_fail else required)(job, variant, job.steps)
            turns.runs[variant.label].append(done)
    return {
        "job": asdict(job),
        "plain_peak_bytes": plain,
        "settings": [asdict(setting) for setting in settings],
        "runs": {label: [figures(done) for done in runs] for label, runs in turns.runs.items()},
        "rows": [
            row(turns, each, tried[each.label], settings[-1].fits(each.budgets))
            for each in budgeted
        ],
    }


def figures(done: Run) -> dict:
    kept = ("peak_bytes", "mapped_peak_bytes", "budget_violations", "spilled_bytes", "plan")
    return {
        "status": done.status,
        "step_seconds": [result["step_seconds"] for result in done.results],
        "median_seconds": None if failed(done) else step_seconds(done),
        "reports": [{name: report.get(name) for name in kept} for report in done.reports],
    }


def row(turns: Turns, variant: Variant, tried: list[int], full_fits: bool) -> dict:
    """One budget against all it is compared with; a ratio below 1 is faster than the other."""
    runs = turns.runs[variant.label]
    result: dict = {
        "budget": variant.label,
        "budget_bytes": list(variant.budgets),
        "finished": not any(failed(done) for done in runs),
    }
    if not result["finished"]:
        messages = [line for done in runs for line in done.messages if "budget" in line]
        result["reason"] = messages[-1] if messages else "no message"
        return result
    ranks = range(turns.job.ranks)
    mapped = [max(done.reports[rank]["mapped_peak_bytes"] for done in runs) for rank in ranks]
    stock = [done for label in ("stock", "measured") for done in turns.runs[label]]
    full = turns.fastest_way(turns.job.blocks)
    best = min(
        (turns.fastest_way(checkpoint) for checkpoint in tried),
        key=lambda label: statistics.median(turns.seconds(label)),
        default=None,
    )
    return result | {
        "seconds": statistics.median(turns.seconds(variant.label)),
        "mapped_peak_bytes": mapped,
        "held": all(peak <= budget for peak, budget in zip(mapped, variant.budgets, strict=True)),
        "violations": sum(report["budget_violations"] for done in runs for report in done.reports),
        "same_bits": all(
            done.same_numbers(turns.runs["stock"][0], rank)
            for done in runs + stock
            for rank in ranks
        ),
        "settled": all(settled(done) for done in runs),
        "to_measured": turns.ratios(variant.label, "measured"),
        "to_stock": turns.ratios(variant.label, "stock"),
        "full": full,
        "to_full": turns.ratios(variant.label, full),
        "full_fits": full_fits,
        "best_single": best,
        "to_best_single": turns.ratios(variant.label, best) if best else None,
    }


def settled(done: Run) -> bool:
    """Was the last plan of each rank in use before the steps that are counted?"""
    counted_from = len(done.results[0]["step_seconds"]) - len(late_steps(done.results[0])) + 1
    plans = [report.get("plan") for report in done.reports]
    begins = [plan and plan["active_from_step"] for plan in plans]
    return all(begin is not None and begin <= counted_from for begin in begins)


# --- What is printed ------------------------------------------------------------------------------

HEADER = """\
| job | budget | step | to `EBBTIDE=1` | to stock | to full recompute | \
to the best single setting | which | real peaks (mapped), of the budgets | violations | bits |
|---|---|---|---|---|---|---|---|---|---|---|"""


def ratio(values: list[float] | None) -> str:
    if not values:
        return "–"
    spread = f" ({min(values):.3f}–{max(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.median(values):.3f}{spread}"


def markdown(job: Job, each: dict) -> str:
    first = f"| {job.schedule}, {job.ranks} ranks | {each['budget'].removeprefix('budget-')} %"
    if not each["finished"]:
        return f"{first} | did not finish: {each['reason']}" + " |" * 9
    shares = zip(each["mapped_peak_bytes"], each["budget_bytes"], strict=True)
    cells = [
        f"{each['seconds']:.3f} s",
        ratio(each["to_measured"]),
        ratio(each["to_stock"]),
        ratio(each["to_full"]),
        ratio(each["to_best_single"]),
        each["best_single"] or "none fits",
        ", ".join(f"{peak / budget:.1%}" for peak, budget in shares),
        str(each["violations"]),
        "equal" if each["same_bits"] else "DIFFERENT",
    ]
    return f"{first} | {' | '.join(cells)} |"


def settings_table(job: Job, result: dict) -> str:
    lines = [
        f"{job.schedule}, {job.ranks} ranks, {job.layers} blocks, {job.microbatches} microbatches: "
        f"peak of each rank, MiB, by blocks of a stage that are computed again"
    ]
    for setting in result["settings"]:
        megabytes = ", ".join(f"{peak / MIB:,.0f}" for peak in setting["peaks"])
        lines.append(f"  {setting['checkpoint']}: {megabytes}")
    for label, runs in result["runs"].items():
        medians = [done["median_seconds"] for done in runs]
        shown = ", ".join("failed" if one is None else f"{one:.3f}" for one in medians)
        lines.append(f"  {label}: {shown} s a step")
    return "\n".join(lines)


def verdicts(job: Job, each: dict) -> list[str]:
    """Each target, met or missed."""
    where = f"{job.schedule}, {job.ranks} ranks, {each['budget']}"
    if not each["finished"]:
        return [f"MISSED {where}: did not finish: {each['reason']}"]
    full = statistics.median(each["to_full"])
    over = "" if each["full_fits"] else " (which is over this budget)"
    checks = [
        (each["same_bits"], "losses and parameters bit for bit"),
        (each["held"] and each["violations"] == 0, "within the budget"),
        (each["settled"], "the plan was in use in all steps that are counted"),
        (full <= FULL_AT_MOST, f"to full recompute {full:.3f}, at most {FULL_AT_MOST}{over}"),
    ]
    if each["to_best_single"]:
        single = statistics.median(each["to_best_single"])
        text = f"to the best single setting {single:.3f}, at most {SINGLE_AT_MOST}"
        checks.append((single <= SINGLE_AT_MOST, text))
    return [f"{'met   ' if met else 'MISSED'} {where}: {text}" for met, text in checks]


def jobs(options: argparse.Namespace) -> list[Job]:
    """Two ranks have 8 blocks and 4 microbatches, four ranks 16 smaller ones and 8."""
    sizes = {2: (8, 192, 4, 4), 4: (16, 128, 2, 8)}
    return [
        Job(schedule, ranks, *sizes[ranks], options.steps)
        for ranks in options.ranks
        for schedule in options.schedules
    ]


# --- Parts ----------------------------------------------------------------------------------------


def steps_part(options: argparse.Namespace) -> list[str]:
    begun = time.monotonic()
    results, lines, judged = [], [], []
    for job in jobs(options):
        result = bench(job, options)
        results.append(result)
        print(settings_table(job, result), flush=True)
        lines += [markdown(job, each) for each in result["rows"]]
        judged += [verdict for each in result["rows"] for verdict in verdicts(job, each)]
        write("steps", results)
    text = (
        f"{platform.machine()}, {os.cpu_count()} cores, {options.turns} turns of {options.steps} "
        f"steps, one thread a rank, offloading: {options.offload}; "
        f"{time.monotonic() - begun:.0f} s in all.\n\n" + "\n".join([HEADER, *lines]) + "\n"
    )
    (FOLDER / "steps.md").write_text(text)
    print("\n" + text)
    return judged


def simulator_part(options: argparse.Namespace) -> list[str]:
    results, lines = [], []
    for job in jobs(options):
        results.append(against_real_steps(job, options.turns, options.budgets))
        lines += simulator_lines(results[-1])
        write("simulator", results)
    return lines


def hidden_part(_: argparse.Namespace) -> list[str]:
    results = [hidden(name) for name in HIDDEN_JOBS]
    write("hidden", results)
    return [line for result in results for line in hidden_lines(result)]


def write(part: str, results: list[dict]) -> None:
    (FOLDER / f"{part}.json").write_text(json.dumps(results))


PARTS = {"steps": steps_part, "simulator": simulator_part, "hidden": hidden_part}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), dest="parts")
    parser.add_argument("--schedules", nargs="+", default=["1f1b", "zero-bubble"])
    parser.add_argument("--ranks", type=int, nargs="+", choices=(2, 4), default=[2, 4])
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.6, 0.8], help="of the peak")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--offload", choices=("never", "auto"), default="never", help="may plans write to disk"
    )
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    judged: list[str] = []
    for part in options.parts:
        try:
            judged += PARTS[part](options)
        except Failure as failure:
            judged.append(f"MISSED {failure}")
        except KeyboardInterrupt:
            print("\ninterrupted")
            return 130
    print("\n" + "\n".join(judged))
    return 1 if any(line.startswith("MISSED") for line in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
