"""The allocator on recorded training steps, others beside it: ./dev bench allocator

Time and fragmentation on all allocations and frees of two steps of a GPT-2, a ResNet-50 and a
DenseNet-121, which are recorded first; throughput of several threads; with --training whole steps
against stock PyTorch; with --random so many operations, each checked. All figures of a table are of
one run, in processes that take turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "bench"
PROGRAMS = ROOT / "build" / "release" / "bin"
TRACES = ("gpt2", "resnet50", "densenet121")
OTHERS = {"jemalloc": "libjemalloc2", "mimalloc": "libmimalloc2.0"}  # Debian's packages
UNTOUCHED = ("none", "watched", "watched-outside")  # names of the program's: by time alone
NS_TARGETS = {"planned": 30, "fallback": 100}
ROUNDS = 3
REPETITIONS = 5
WARM_UP_STEPS = 6
FRAGMENTATION_KEYS = (
    *("live_peak", "mapped_peak", "mapped_steady", "planned", "allocations"),
    *("deviations", "refused", "load", "height"),
)
MIB = 1024 * 1024


@dataclass
class Tables:
    """What was measured, for --json; and printed as Markdown as it comes."""

    rows: dict[str, list[dict]] = field(default_factory=dict)

    def begin(self, name: str, *columns: str) -> None:
        self.rows[name] = []
        print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)

    def add(self, name: str, row: dict, *cells: str) -> None:
        self.rows[name].append(row)
        print(f"| {' | '.join(cells)} |", flush=True)


def trace(name: str) -> Path:
    """Recorded where it is not there yet; remove the file to record it anew."""
    path = FOLDER / f"{name}.allocations"
    if not path.exists():
        print(f"recording two steps of {name}", file=sys.stderr, flush=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        script = ROOT / "benchmarks" / "_allocator_traces.py"
        subprocess.run(
            [sys.executable, script, name, path],
            env=plain_environment(),
            check=True,
            stderr=subprocess.DEVNULL,
        )
    return path


def plain_environment(**more: str) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
    return environment | {"OMP_NUM_THREADS": "1"} | more


def benchmark(name: str, pattern: str, *options: str, preload: str = "") -> list[dict]:
    program = PROGRAMS / "allocator_benchmark"
    command = [program, f"{name}={trace(name)}", f"--benchmark_filter={pattern}", *options]
    environment = plain_environment(**({"LD_PRELOAD": preload} if preload else {}))
    output = subprocess.check_output(
        [*command, "--benchmark_format=json"], env=environment, stderr=subprocess.DEVNULL
    )
    runs = json.loads(output)["benchmarks"]
    return [run for run in runs if run["run_type"] == "iteration"]


def subjects() -> Iterator[tuple[str, str, str]]:
    """Its name, the program's name of it, and the library that brings it."""
    yield "planned", "planned", ""
    yield "fallback", "fallback", ""
    yield "fallback, watched in a step", "watched", ""
    yield "fallback, watched outside of steps", "watched-outside", ""
    yield "PyTorch's", "torch", ""
    yield "glibc", "malloc", ""
    for name, package in OTHERS.items():
        library = find_library(name)
        if library is None:
            print(f"{name} is not there: apt-get install {package}", file=sys.stderr)
        else:
            yield name, "malloc", library
    yield "the replay itself", "none", ""


# --- time -----------------------------------------------------------------------------------------


def times(tables: Tables, kind: str) -> None:
    """kind: time, or touch: with a write to each page of a new block."""
    everyone = [each for each in subjects() if kind == "time" or each[1] not in UNTOUCHED]
    sets = ("all", "large") if kind == "time" else ("all",)
    found: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for name in TRACES:
            for subject, program_name, library in everyone:
                for blocks in sets:
                    runs = benchmark(
                        name,
                        f"^{kind}/{name}/{blocks}/{program_name}$",
                        f"--benchmark_repetitions={REPETITIONS}",
                        "--benchmark_min_time=0.05",
                        preload=library,
                    )
                    figures = [run["ns_per_pair"] for run in runs]
                    found.setdefault((subject, name, blocks), []).extend(figures)
    columns = [(name, blocks) for name in TRACES for blocks in sets]
    heads = (f"{name}, {blocks} blocks" for name, blocks in columns)
    tables.begin(kind, "ns of an allocation with its free", *heads, "target")
    for subject, _, _ in everyone:
        medians = [statistics.median(found.get((subject, *column), [0])) for column in columns]
        target = NS_TARGETS.get(subject) if kind == "time" else None
        row = {"allocator": subject, "target_ns": target}
        row |= {f"{name}/{blocks}": ns for (name, blocks), ns in zip(columns, medians, strict=True)}
        cells = (f"{ns:,.1f}" if ns else "–" for ns in medians)
        tables.add(kind, row, subject, *cells, f"≤ {target}" if target else "–")


# --- fragmentation --------------------------------------------------------------------------------


def fragmentation(tables: Tables) -> None:
    """Of four rounds; "planned after a step" begins without places, as training does."""
    tables.begin(
        "fragmentation",
        *("trace", "blocks", "budget", "live peak", "mapped peak", "1 − live / mapped"),
        *("in the last round", "target of it", "large blocks elsewhere", "refused"),
    )
    for name in TRACES:
        for run in benchmark(name, f"^fragmentation/{name}/"):
            _, _, subject, budget = run["name"].removesuffix("/iterations:1").split("/")
            budget = budget.replace(" over ", " / ")
            live, mapped, steady = (run[k] for k in ("live_peak", "mapped_peak", "mapped_steady"))
            target = 0.08 if subject == "fallback" else 0.01
            row = {"trace": name, "allocator": subject, "budget": budget, "target": target}
            row |= {key: run[key] for key in FRAGMENTATION_KEYS if key in run}
            cells = [name, subject, budget, f"{live / MIB:,.1f} MiB", f"{mapped / MIB:,.1f} MiB"]
            cells += [f"{1 - live / mapped:.2%}", f"{1 - live / steady:.2%}", f"≤ {target:.0%}"]
            cells.append("–" if subject == "fallback" else f"{run['deviations']:.0f}")
            tables.add("fragmentation", row, *cells, f"{run['refused']:.0f}")


# --- threads --------------------------------------------------------------------------------------


def threads(tables: Tables) -> None:
    counts = (1, 2, 4, 8)
    rows = [("fallback", f"fallback/streams:{streams}", "") for streams in (1, 4)]
    rows += [(name, "malloc", library) for name, of, library in subjects() if of == "malloc"]
    cores = len(os.sched_getaffinity(0))
    tables.begin(
        "threads", f"million pairs a second, {cores} cores",
        *(f"{count} threads" for count in counts), "two against one",
    )  # fmt: skip
    for subject, pattern, library in rows:
        name = TRACES[0]
        runs = benchmark(
            name, f"^threads/{name}/{pattern}/real_time", f"--benchmark_repetitions={REPETITIONS}",
            "--benchmark_min_time=0.1", preload=library,
        )  # fmt: skip
        rates = {
            count: statistics.median(
                run["items_per_second"] for run in runs if run["threads"] == count
            )
            for count in counts
        }
        label = subject + (", " + pattern.partition("/")[2].replace(":", " ") if not library and
                           "/" in pattern else "")  # fmt: skip
        tables.add(
            "threads",
            {"allocator": label, "cores": cores} | {str(k): v for k, v in rates.items()},
            label, *(f"{rate / 1e6:.1f}" for rate in rates.values()),
            f"{rates[2] / rates[1]:.2f}",
        )  # fmt: skip


# --- training -------------------------------------------------------------------------------------


def train(name: str, steps: int, **variables: str) -> dict:
    script = ROOT / "benchmarks" / "_allocator_training.py"
    command = [sys.executable, script, name, "--steps", str(steps)]
    output = subprocess.check_output(
        command, env=plain_environment(**variables), stderr=subprocess.DEVNULL, text=True
    )
    return json.loads(output.splitlines()[-1])


def training(tables: Tables, steps: int) -> None:
    tables.begin(
        "training", "program", "step, PyTorch's allocator", "step, Ebbtide's", "ratio", "target",
        "processor time", "page faults a step, PyTorch's", "Ebbtide's", "share", "target",
        "parameters",
    )  # fmt: skip
    for name in ("gpt2", "resnet50"):
        runs: dict[str, list[dict]] = {"stock": [], "ebbtide": []}
        for _ in range(ROUNDS):
            runs["stock"].append(train(name, steps))
            runs["ebbtide"].append(train(name, steps, EBBTIDE="1"))
        seconds, processor, faults = (
            {
                side: statistics.median(x for run in of for x in run[key][WARM_UP_STEPS:])
                for side, of in runs.items()
            }
            for key in ("seconds", "processor_seconds", "faults")
        )
        same = len({run["parameters"] for of in runs.values() for run in of}) == 1
        ratio = seconds["ebbtide"] / seconds["stock"]
        share = faults["ebbtide"] / max(faults["stock"], 1)
        processor_ratio = processor["ebbtide"] / processor["stock"]
        row = {"program": name, "step_ratio": ratio, "processor_ratio": processor_ratio}
        row |= {"fault_share": share, "same_bits": same}
        row |= {f"seconds_{side}": value for side, value in seconds.items()}
        row |= {f"faults_{side}": value for side, value in faults.items()}
        tables.add(
            "training", row, name,
            f"{seconds['stock']:.3f} s", f"{seconds['ebbtide']:.3f} s", f"{ratio:.3f}", "≤ 0.9",
            f"{processor_ratio:.3f}",
            f"{faults['stock']:,.0f}", f"{faults['ebbtide']:,.0f}", f"{share:.2%}", "≤ 1 %",
            "equal" if same else "DIFFERENT",
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("time", "touch", "fragmentation", "threads")
    parser.add_argument("--only", choices=parts, action="append", help="of these tables; else all")
    parser.add_argument("--training", action="store_true", help="whole steps, too (20 minutes)")
    parser.add_argument("--steps", type=int, default=16, help="of a training process")
    parser.add_argument("--random", type=int, metavar="N", help="so many operations, each checked")
    parser.add_argument("--json", type=Path, help="the tables, to this file")
    arguments = parser.parse_args()
    wanted = arguments.only or ([] if arguments.training or arguments.random else list(parts))
    tables = Tables()
    for kind in ("time", "touch"):
        if kind in wanted:
            times(tables, kind)
    if "fragmentation" in wanted:
        fragmentation(tables)
    if "threads" in wanted:
        threads(tables)
    if arguments.training:
        training(tables, arguments.steps)
    status = 0
    if arguments.random:
        status = subprocess.run([PROGRAMS / "allocator_random", str(arguments.random)]).returncode
    if arguments.json:
        arguments.json.write_text(json.dumps(tables.rows, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
