"""`ebbtide simulate` against real steps of pipelines, and what it says of recompute in bubbles.

A job is recorded under EBBTIDE=1, and then trained within budgets. Against the first simulate is
asked for the step that keeps everything: its peak is taken from the trace, so only its time is a
prediction. Against the others for the step that it plans within the same budgets, peak and all.
"""

import json
import os
import re
import statistics
import subprocess
from pathlib import Path

from _demo_runs import RELEASE, ROOT, Run
from _pipeline_runs import FOLDER, Failure, Job, Variant, by_rank, required, step_seconds, within

TIME_WITHIN = 0.10  # of the real step
PEAK_WITHIN = 0.03  # of the real peak, each rank
HIDDEN_AT_LEAST = 0.60  # for 1F1B
KEPT, PLANNED = "everything kept", "planned"  # as simulate names them
HIDDEN_JOBS = {
    name: ROOT / "examples" / "jobs" / f"gpt-8-{name}.toml" for name in ("1f1b", "zb-h1")
}


def simulate(job_file: Path) -> dict:
    command = [str(RELEASE / "bin" / "ebbtide"), "simulate", str(job_file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise Failure(f"simulate {job_file.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def setting(simulated: dict, name: str) -> dict:
    return next(each for each in simulated["settings"] if each["name"] == name)


# --- Against real steps ---------------------------------------------------------------------------


def recorded(job: Job, turn: int) -> tuple[Run, Path]:
    """A run under EBBTIDE=1 that leaves traces of its first steps, and their folder."""
    folder = FOLDER / f"{job.name}-traces-{turn}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("trace-*.json"):
        old.unlink()
    variables = {"EBBTIDE": "1", "EBBTIDE_TRACE_DIR": str(folder)}
    return required(job, Variant("recorded", variables), job.steps), folder


def simulated(job: Job, folder: Path, budget: str) -> dict:
    """From the last step that all ranks recorded."""
    job_file = folder / "job.toml"
    job_file.write_text(
        f'traces = "trace-{{rank}}-{last_common_step(folder, job.ranks)}.json"\n'
        f'ranks = {job.ranks}\nprocessors = {os.cpu_count()}\nbudget = "{budget}"\n'
    )
    return simulate(job_file)


def last_common_step(folder: Path, ranks: int) -> int:
    """Every rank has a trace of it, and it is not the first one, which makes optimizer state."""
    steps: dict[int, set[int]] = {rank: set() for rank in range(ranks)}
    for path in folder.glob("trace-*-*.json"):
        found = re.fullmatch(r"trace-(\d+)-(\d+)", path.stem)
        steps[int(found[1])].add(int(found[2]))
    common = set.intersection(*steps.values()) - {1}
    if not common:
        raise Failure(f"{folder.name}: no step was recorded by all ranks")
    return max(common)


def against_real_steps(job: Job, turns: int, budgets: list[float]) -> dict:
    result: dict = {"job": job.name, "turns": []}
    for turn in range(turns):
        done, folder = recorded(job, turn)
        kept = simulated(job, folder, "1TiB")
        plain = [report["plain_peak_bytes"] for report in done.reports]
        compared = {KEPT: comparison(kept, KEPT, done, plain)}
        for share in budgets:
            variant = within(share, plain, "never")
            budgeted = required(job, variant, job.steps)
            planned = simulated(job, folder, by_rank(variant.budgets))
            real = [report["steady_peak_bytes"] for report in budgeted.reports]
            compared[variant.label] = comparison(planned, PLANNED, budgeted, real)
        result["turns"].append(compared)
    return result


def comparison(simulated: dict, name: str, done: Run, real_peaks: list[int]) -> dict:
    """Errors as shares of what was real; of the peaks that of the rank that is furthest off."""
    seconds = setting(simulated, name)["seconds"]
    key = "peak_bytes_kept" if name == KEPT else "peak_bytes"
    said = [rank[key] for rank in simulated["per_rank"]]
    pairs = zip(said, real_peaks, strict=True)
    return {
        "feasible": simulated["feasible"],
        "simulated_seconds": seconds,
        "real_seconds": step_seconds(done),
        "time_error": seconds / step_seconds(done) - 1,
        "simulated_peak_bytes": said,
        "real_peak_bytes": real_peaks,
        "peak_error": max((a / b - 1 for a, b in pairs), key=abs),
    }


def simulator_lines(result: dict) -> list[str]:
    lines = []
    for label in result["turns"][0]:
        turns = [turn[label] for turn in result["turns"]]
        where = f"{result['job']}, {label}"
        lines += [
            f"       {where}: simulated {turn['simulated_seconds']:.3f} s, "
            f"real {turn['real_seconds']:.3f} s ({turn['time_error']:+.1%}); "
            f"peak of the rank that is furthest off {turn['peak_error']:+.1%}"
            f"{'' if turn['feasible'] else '; simulate finds no step within these budgets'}"
            for turn in turns
        ]
        for name, what, at_most in (
            ("time_error", "simulated step", TIME_WITHIN),
            ("peak_error", "simulated peak", PEAK_WITHIN),
        ):
            if (name, label) == ("peak_error", KEPT):
                continue  # is the trace's own
            error = statistics.median(abs(turn[name]) for turn in turns)
            text = f"{what} {error:.1%} from the real one, within {at_most:.0%}"
            lines.append(f"{'met   ' if error <= at_most else 'MISSED'} {where}: {text}")
    return lines


# --- Recompute in bubbles -------------------------------------------------------------------------


def hidden(name: str) -> dict:
    """Of the planned step: what of its recompute does not make it longer.

    while_waiting: seconds of replays that ran while their rank would have waited, of all seconds.
    not_longer: what the step gained in length is set against the seconds of the rank that computes
    most again, as if it had been that rank's alone.
    """
    simulated = simulate(HIDDEN_JOBS[name])
    kept, planned = setting(simulated, KEPT), setting(simulated, PLANNED)
    most = max(rank["recompute_seconds"] for rank in simulated["per_rank"])
    longer = planned["seconds"] - kept["seconds"]
    return {
        "job": HIDDEN_JOBS[name].name,
        "schedule": simulated["schedule"],
        "kept_seconds": kept["seconds"],
        "planned_seconds": planned["seconds"],
        "recompute_seconds": planned["recompute_seconds"],
        "most_of_a_rank_seconds": most,
        "while_waiting": planned["hidden_share"],
        "not_longer": 1 - longer / most if most else None,
    }


def hidden_lines(result: dict) -> list[str]:
    share = result["not_longer"]
    shown = "nothing is recomputed" if share is None else f"{share:.0%} of its most loaded rank's"
    lines = [
        f"{result['job']}: step {result['planned_seconds']:.3f} s, everything kept "
        f"{result['kept_seconds']:.3f} s; recompute {result['recompute_seconds']:.3f} s, "
        f"{result['while_waiting']:.0%} of it while its rank would have waited"
    ]
    met = share is not None and share >= HIDDEN_AT_LEAST
    target = f", at least {HIDDEN_AT_LEAST:.0%}" if result["schedule"] == "1f1b" else ""
    verdict = ("met   " if met else "MISSED") if target else "      "
    lines.append(
        f"{verdict} {result['job']}: recompute that does not lengthen the step: {shown}{target}"
    )
    return lines
