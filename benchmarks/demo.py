"""Trains real models plain and under a budget, and compares: ./dev demo, ./dev bench demo.

Every figure printed is measured in this run. Three runs of a model: stock torch; EBBTIDE=1
(measures, drops nothing); EBBTIDE_BUDGET = plain peak less a fraction of the activation bytes.
Slowdowns are medians of the steps after the sixth.
"""

import argparse
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from _demo_chart import MIB, Curve, draw
from _demo_runs import ROOT, Example, Run, cnn, cpp, gpt, run

FOLDER = ROOT / "build" / "demo"
EXAMPLES = {"gpt": gpt, "cnn": cnn, "cpp": cpp}


@dataclass(frozen=True)
class Baseline:
    example: Example
    stock: Run
    measured: Run

    @property
    def plain_peak(self) -> int:
        return max(report["plain_peak_bytes"] for report in self.measured.reports)

    def budget(self, fraction: float) -> int:
        """One budget for all ranks: the largest of plain peak - fraction * activation bytes."""
        return max(
            report["plain_peak_bytes"] - int(fraction * report["activation_bytes"])
            for report in self.measured.reports
        )


class Failure(Exception):
    pass


def say(line: str = "") -> None:
    print(line, flush=True)


def started(text: str) -> None:
    say(f"\n==> {text}")


def indented(line: str) -> None:
    say(f"    {line}")


def completed(result: Run, folder: Path, reports: bool) -> Run:
    log = f"see {relative(folder)}/output.log"
    if result.status != 0 or not result.results:
        raise Failure(f"the run ended with status {result.status}; {log}")
    if reports and not result.reports:
        raise Failure(f"the plugin wrote no report; {log}")
    say(f"    done in {result.seconds:.0f} s")
    return result


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def baseline(example: Example) -> Baseline:
    started(f"{example.title}: stock torch")
    folder = FOLDER / f"{example.name}-stock"
    stock = completed(run(example, {}, folder, indented), folder, reports=False)
    started(f"{example.title}: EBBTIDE=1 (measures, drops nothing)")
    folder = FOLDER / f"{example.name}-measure"
    measured = completed(run(example, {"EBBTIDE": "1"}, folder, indented), folder, reports=True)
    return Baseline(example, stock, measured)


def budgeted(base: Baseline, fraction: float) -> tuple[int, Run]:
    budget = base.budget(fraction)
    started(
        f"{base.example.title}: EBBTIDE_BUDGET={budget} ({budget / MIB:,.0f} MiB: plain peak less "
        f"{fraction:.0%} of the activation bytes, each rank)"
    )
    folder = FOLDER / f"{base.example.name}-minus-{fraction * 100:.0f}"
    return budget, run(base.example, {"EBBTIDE_BUDGET": str(budget)}, folder, indented)


def mib(value: float | None) -> str:
    return "-" if value is None else f"{value / MIB:,.0f} MiB"


def seconds_between(base: Run, other: Run, rank: int) -> str:
    mine, theirs = other.median_step(rank), base.median_step(rank)
    return f"{mine / theirs:.3f}x ({mine:.3f} s against {theirs:.3f} s)"


def rank_rows(base: Baseline, budget: int, result: Run, rank: int) -> list[tuple[str, str]]:
    report, measured = result.reports[rank], base.measured.reports[rank]
    peak, predicted = report["steady_peak_bytes"], report["predicted_peak_bytes"]
    off = (predicted - peak) / peak if predicted else None
    plan = report.get("plan") or {}
    same = result.same_numbers(base.stock, rank) and base.measured.same_numbers(base.stock, rank)
    return [
        ("plain peak", mib(measured["plain_peak_bytes"])),
        ("  activations", mib(measured["activation_bytes"])),
        ("budget", mib(budget)),
        ("real peak, live, steady step", mib(peak)),
        ("real peak, live, whole run", mib(report["peak_bytes"])),
        ("real peak, mapped, whole run", mib(report["mapped_peak_bytes"])),
        ("  first step", mib(report["first_step_peak_bytes"])),
        ("predicted peak", mib(predicted) + ("" if off is None else f" ({off:+.1%} of real)")),
        ("budget violations", str(report["budget_violations"])),
        ("step against EBBTIDE=1", seconds_between(base.measured, result, rank)),
        ("step against stock torch", seconds_between(base.stock, result, rank)),
        ("recomputed operations", f"{report['recomputed_ops']:,} in {report['steps']} steps"),
        ("recomputing took", f"{report['recompute_seconds']:.2f} s"),
        ("masks compressed", f"{report['decoded_values']:,} in {report['steps']} steps"),
        ("compressing took", f"{report['codec_seconds']:.2f} s"),
        ("spilled to disk", mib(report["spilled_bytes"])),
        (
            "plan",
            f"{plan.get('planner', '-')}, active from step {plan.get('active_from_step', '-')}, "
            f"found in {plan.get('plan_seconds') or 0:.2f} s",
        ),
        ("losses and parameters", "bit-identical" if same else "DIFFERENT"),
    ]


def print_table(base: Baseline, budget: int, result: Run) -> None:
    columns = [rank_rows(base, budget, result, rank) for rank in range(base.example.ranks)]
    wide = max(len(value) for column in columns for _, value in column) + 3
    say("\n" + " " * 32 + "".join(f"{f'rank {rank}':<{wide}}" for rank in range(len(columns))))
    for row in zip(*columns, strict=True):
        say(f"{row[0][0]:<32}" + "".join(f"{value:<{wide}}" for _, value in row).rstrip())


SHOWN = (
    "memory_budget_bytes",
    "memory_mapped_peak_bytes",
    "budget_violations_total",
    "recompute_seconds_total",
    "memory_smallest_feasible_budget_bytes",
)


def print_metrics(result: Run, folder: Path) -> None:
    """A few series of rank 0; all of each rank's in a file."""
    for rank, text in enumerate(result.metrics):
        path = folder / f"metrics-rank{rank}.txt"
        path.write_text(text)
        say(f"\nrank {rank}, /metrics while it trained: {relative(path)}")
        shown = [line for line in text.splitlines() if line.startswith("ebbtide_") and "{" in line]
        named = [line for line in shown if line[len("ebbtide_") : line.index("{")] in SHOWN]
        for line in named if rank == 0 else []:
            indented(line)
        if not shown:
            indented("no answer")


def broken_promises(base: Baseline, budget: int, result: Run) -> list[str]:
    broken = []
    for rank, report in enumerate(result.reports):
        where = f"{base.example.title}, rank {rank}"
        if not result.same_numbers(base.stock, rank):
            broken.append(f"{where}: losses or parameters differ from stock torch")
        if not base.measured.same_numbers(base.stock, rank):
            broken.append(f"{where}: losses or parameters differ under EBBTIDE=1")
        if report["mapped_peak_bytes"] > budget or report["budget_violations"]:
            broken.append(f"{where}: over the budget")
        if not report.get("plan"):
            broken.append(f"{where}: no plan was in use, all was spilled")
    return broken


def write_chart(base: Baseline, budget: int, result: Run) -> None:
    curves = []
    for label, style, source in (
        ("plain", "plain", base.measured),
        ("with Ebbtide", "kept", result),
    ):
        timeline = source.reports[0].get("timeline") or {}
        if not timeline.get("live_bytes"):
            say("no timeline in the reports: build/demo/memory.svg is not drawn")
            return
        curves.append(Curve(label, style, timeline["seconds"], timeline["live_bytes"]))
    path = FOLDER / "memory.svg"
    path.write_text(draw(f"Memory along one training step: {base.example.title}", curves, budget))
    say(f"\nlive bytes along one step: {relative(path)}")


# --- ./dev demo -----------------------------------------------------------------------------------


def demo(steps: int, fraction: float) -> list[str]:
    base = baseline(gpt(steps))
    budget, result = budgeted(base, fraction)
    completed(result, FOLDER / f"gpt-minus-{fraction * 100:.0f}", reports=True)
    print_metrics(result, FOLDER)
    print_table(base, budget, result)
    write_chart(base, budget, result)
    return broken_promises(base, budget, result)


# --- ./dev bench demo -----------------------------------------------------------------------------

_HEADER = """\
| model | ranks | plain peak | activations | budget | real peak (mapped) | steady peak (live) | \
predicted | slowdown to `EBBTIDE=1` | to stock | recomputed ops a step | plan | bit-identical |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def markdown_row(base: Baseline, fraction: float, budget: int, result: Run) -> str:
    """One row for the worst rank: the largest peaks and slowdowns."""
    name = f"{base.example.title}, -{fraction:.0%}"
    ranks = range(base.example.ranks)
    plain = [mib(base.plain_peak), mib(max(r["activation_bytes"] for r in base.measured.reports))]
    if result.status != 0 or not result.reports or not result.results:
        reason = next((m for m in reversed(result.messages) if "ebbtide" in m), "failed")
        smallest = [r.get("smallest_feasible_budget_bytes") for r in result.reports]
        if any(smallest):
            reason = f"infeasible; smallest budget {mib(max(s for s in smallest if s))}"
        return "| " + " | ".join([name, str(len(ranks)), *plain, mib(budget), reason]) + " |" * 8
    reports = result.reports
    cells = [
        name,
        str(len(ranks)),
        *plain,
        mib(budget),
        mib(max(r["mapped_peak_bytes"] for r in reports)),
        mib(max(r["steady_peak_bytes"] for r in reports)),
        mib(max(r["predicted_peak_bytes"] for r in reports)),
        f"{max(result.median_step(r) / base.measured.median_step(r) for r in ranks):.3f}",
        f"{max(result.median_step(r) / base.stock.median_step(r) for r in ranks):.3f}",
        f"{max(r['recomputed_ops'] / r['steps'] for r in reports):.0f}",
        str((reports[0].get("plan") or {}).get("planner", "-")),
        "yes" if all(result.same_numbers(base.stock, r) for r in ranks) else "NO",
    ]
    return "| " + " | ".join(cells) + " |"


def ample_runs(base: Baseline) -> dict[str, Run]:
    """The cost of the plugin itself: a budget that needs nothing dropped, with either allocator."""
    runs = {}
    budget = str(2 * base.plain_peak)
    for label, variables in (
        ("caching allocator", {"EBBTIDE_BUDGET": budget}),
        ("stock's allocator", {"EBBTIDE": "1", "EBBTIDE_ALLOCATOR": "torch"}),
    ):
        started(f"{base.example.title}: nothing to drop, {label}")
        folder = FOLDER / f"{base.example.name}-ample-{variables.get('EBBTIDE_ALLOCATOR', 'own')}"
        runs[label] = completed(
            run(base.example, variables, folder, indented), folder, reports=True
        )
    return runs


def ample_row(base: Baseline, label: str, result: Run) -> str:
    ranks = range(base.example.ranks)
    ratio = max(result.median_step(rank) / base.stock.median_step(rank) for rank in ranks)
    return f"| {base.example.title}, {label} | {ratio:.3f} |"


def bench(examples: list[Example], steps: int, fractions: list[float]) -> list[str]:
    begun = time.monotonic()
    broken: list[str] = []
    rows: list[str] = []
    ample: list[str] = []
    for example in examples:
        base = baseline(example)
        runs = [(fraction, *budgeted(base, fraction)) for fraction in fractions]
        unhurt = ample_runs(base) if example.name == "gpt" else {}
        # The machine's speed drifts: what is compared against runs before and after.
        again = baseline(example)
        base.stock.repeats.append(again.stock)
        base.measured.repeats.append(again.measured)
        ample += [ample_row(base, label, result) for label, result in unhurt.items()]
        for fraction, budget, result in runs:
            rows.append(markdown_row(base, fraction, budget, result))
            if result.status == 0 and result.reports and result.results:
                print_table(base, budget, result)
                broken += broken_promises(base, budget, result)
                if example.name == "gpt" and fraction == fractions[0]:
                    write_chart(base, budget, result)
            elif fraction <= 0.5:
                broken.append(f"{example.title}, -{fraction:.0%}: did not finish")
    text = (
        f"{platform.machine()}, {os.cpu_count()} cores, {steps} steps, one thread a rank; "
        f"{time.monotonic() - begun:.0f} s in all.\n\n"
        + _HEADER
        + "\n".join(rows)
        + "\n\n| nothing to drop | step against stock |\n|---|---|\n"
        + "\n".join(ample)
        + "\n"
    )
    (FOLDER / "results.md").write_text(text)
    say("\n" + text + f"\nwritten to {relative(FOLDER / 'results.md')}")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every example, several budgets")
    parser.add_argument("--steps", type=int, help="default: 10, with --all 22")
    parser.add_argument(
        "--fractions", type=float, nargs="+", help="of the activations; default 0.5, --all 0.5 0.7"
    )
    parser.add_argument(
        "--examples", nargs="+", choices=EXAMPLES, default=list(EXAMPLES), help="of --all"
    )
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        if options.all:
            steps = options.steps or 22
            examples = [EXAMPLES[name](steps) for name in options.examples]
            broken = bench(examples, steps, options.fractions or [0.5, 0.7])
        else:
            broken = demo(options.steps or 10, (options.fractions or [0.5])[0])
    except Failure as failure:
        broken = [str(failure)]
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    for promise in broken:
        say(f"demo: {promise}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
