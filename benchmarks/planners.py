"""Every planner on the recorded steps, at the plain peak less half of the activations:

./dev bench planners             prints docs/planners.md's table
"""

import argparse
import gzip
import json
import re
import sys
from pathlib import Path

from scheduler import ROOT, Bench, Plan

TRACES = ("gpt", "resnet50", "densenet121", "unet")
SHARE = 0.5  # of the activations, that is to go


def activation_bytes(trace: dict) -> int:
    """What the forward pass leaves live for the backward pass."""
    live = 0
    for kind, place, _ in trace["events"]:
        if kind == "alloc":
            live += trace["blocks"][place][0]
        elif kind == "free":
            live -= trace["blocks"][place][0]
        elif kind == "node":
            break
    return live


def cell(plan: Plan, plain_bytes: int, activations: int) -> str:
    row = plan.row
    if plan.feasible:
        found = f"+{plan.overhead_percent:.1f} %"
    else:
        found = f"no: {(plain_bytes - row['peak_bytes']) / activations:.0%} go at most"
    other = f" (by {row['planner']})" if row["note"] else ""
    return f"{found}, {row['plan_seconds']:.2g} s{other}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/ebbtide")
    parser.add_argument("--only", default="", help="planners that this pattern matches")
    parser.add_argument("--deadline", type=float, default=10, help="seconds a plan")
    arguments = parser.parse_args()
    bench = Bench(arguments.program.resolve(), None, 0)
    budgets = {}
    for name in TRACES:
        path = ROOT / "tests" / "data" / "traces" / f"{name}.json.gz"
        activations = activation_bytes(json.loads(gzip.decompress(path.read_bytes())))
        plain = bench.plain_peak(path)
        budgets[name] = path, plain, activations
    print(f"| planner | {' | '.join(TRACES)} |")
    print("|---" * (len(TRACES) + 1) + "|", flush=True)
    for planner in bench.planners:
        if not re.search(arguments.only, planner):
            continue
        cells = []
        for path, plain, activations in budgets.values():
            budget = str(plain - round(SHARE * activations))
            try:
                plan = bench.plan(path, planner, "--budget", budget, deadline=arguments.deadline)
                cells.append(cell(plan, plain, activations))
            except RuntimeError as error:  # made for another kind of graph, or lacks its solver
                print(f"{planner}, {path.name}: {error}", file=sys.stderr)
                cells.append("–")
        print(f"| `{planner}` | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
