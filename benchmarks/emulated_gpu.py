"""Steps on an emulated GPU, in virtual time: ./dev bench emulated-gpu [--json FILE]

Each line is a process on an emulated H100 in mode clock (docs/gpu.md): kernels take the time of a
table, and compute nothing. No figure is of a GPU. Whether bits are plain's is told by the same
model cut down, in mode bits. --repeats also runs each with other hosts, links and memories.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KIND = "_EBBTIDE_BENCH_KIND"  # set in the processes that train
RUN = ROOT / "build" / "release" / "emulated_gpu" / "run"
GIB = 1 << 30
BUDGETS = {"half": "-50%", "seventy": "-70%"}
KINDS = ("plain", "ebbtide", "half", "seventy", "checkpoint")
# As the emulator tells them: nanoseconds, then counts, then bytes.
NAMES = ("now", "processor", "calls", "waited", "stalled", "busy")
NAMES += ("waits", "launches", "copies", "page_calls", "used", "most_used")

REAL = {
    "EMULATED_GPU_MODE": "clock",
    "EMULATED_GPU_MIB": str(81559),  # an H100's
    "EMULATED_GPU_CONTEXT_MIB": "527",
    "EMULATED_GPU_HOST_GIB": "256",  # an eighth of a machine with eight
}
CUT = {
    "EMULATED_GPU_MODE": "bits",
    "EMULATED_GPU_MIB": "4096",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
}
# Rule 9: what holds at the table must keep its order at all of these.
REPEATS = {
    "table": {},
    "host x 0.5": {"EMULATED_GPU_HOST_PERCENT": "50"},
    "host x 2": {"EMULATED_GPU_HOST_PERCENT": "200"},
    "link 25 GB/s": {"EMULATED_GPU_HOST_GBPS": "25"},
    "link 55 GB/s": {"EMULATED_GPU_HOST_GBPS": "55"},
    "HBM x 0.8": {"EMULATED_GPU_HBM_PERCENT": "80"},
}


# --- in the process that trains


def figures() -> dict[str, float]:
    """The virtual clock's, so far."""
    read = ctypes.CDLL(None).emulated_gpu_times
    read.restype = ctypes.c_size_t
    all_of_them = (ctypes.c_double * len(NAMES))()
    read(all_of_them, ctypes.c_size_t(len(NAMES)))
    return dict(zip(NAMES, all_of_them, strict=True))


class PlanWatch:
    """Whether the last steps were a plan's: each computed something again, none spilled."""

    STEPS = 8

    def __init__(self) -> None:
        self.totals: list[dict[str, int]] = []

    def steady(self) -> bool:
        import ebbtide

        self.totals.append(ebbtide.stats()["totals"])
        last = self.totals[-self.STEPS :]
        again = [each["recomputed_ops"] + each["offloaded_bytes"] for each in last]
        spilled = {each["spilled_bytes"] for each in last}
        rises = all(a < b for a, b in zip(again, again[1:], strict=False))
        return len(last) == self.STEPS and rises and len(spilled) == 1


def train(name: str, kind: str, options: argparse.Namespace) -> dict:
    import torch
    from _virtual_models import MODELS

    cut = os.environ["EMULATED_GPU_MODE"] == "bits"
    torch.manual_seed(0)
    model, optimizer, loss_of = MODELS[name][0](torch, cut, kind == "checkpoint")
    losses = []

    def step() -> None:
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if cut:
            losses.append(loss.item().hex())

    if cut:
        for _ in range(options.steps):
            step()
            time.sleep(options.pause)  # for the search of a plan
        return {"losses": losses}
    # Until a plan is in use, and its verification step over: searches take real time.
    begin, count = time.monotonic(), 0
    watch, waits = PlanWatch(), kind in BUDGETS
    while count < 4 or (waits and time.monotonic() - begin < options.seconds):
        step()
        count += 1
        waits = waits and not watch.steady()
        if count == 3:
            torch.cuda.synchronize()
            base = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    before = figures()
    for _ in range(options.steps):
        step()
    torch.cuda.synchronize()
    after = figures()
    each = {k: (after[k] - before[k]) / options.steps for k in NAMES}
    return {
        "seconds": each["now"] / 1e9,
        "host_seconds": (each["processor"] + each["calls"]) / 1e9,
        "host_seconds_of_calls": each["calls"] / 1e9,
        "host_waited_seconds": each["waited"] / 1e9,
        "host_waits": each["waits"],
        "kernel_seconds": each["busy"] / 1e9,
        "launches": each["launches"],
        "copies": each["copies"],
        "page_calls": each["page_calls"],
        "base_bytes": base,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "device_bytes": after["most_used"],
        "steps_before": count,
    }


# --- the processes


def measure(model: str, kind: str, variables: dict[str, str], options) -> dict:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
    if kind == "ebbtide":
        variables = variables | {"EBBTIDE": "1"}
    if kind in BUDGETS:
        variables = variables | {"EBBTIDE_BUDGET": BUDGETS[kind]}
    with tempfile.TemporaryDirectory() as folder:
        report, result = Path(folder) / "report.json", Path(folder) / "result.json"
        environment |= {KIND: kind} | variables
        if kind == "ebbtide" or kind in BUDGETS:
            environment |= {"EBBTIDE_REPORT": str(report)}
        command = [RUN, sys.executable, __file__, "--models", model, "--json", result]
        command += ["--steps", str(options.steps), "--seconds", str(options.seconds)]
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=options.limit,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"it did not end in {options.limit} s"}
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not result.exists():
            return {"failed": problem_of(lines)}
        found = json.loads(result.read_text())
        found["said"] = [line for line in lines if line.startswith("[ebbtide")]
        if report.exists():
            told = json.loads(report.read_text())
            names = ("steps", "followed_steps", "budget_violations", "recomputed_ops")
            names += ("offloaded_bytes", "spilled_bytes")
            found["report"] = {k: told[k] for k in names}
            found["report"]["budget_bytes"] = told.get("budget_bytes")
        return found


def problem_of(lines: list[str]) -> str:
    """What a process that failed said of it."""
    marks = ("Error: ", "emulated GPU: ", "EBBTIDE_BUDGET=")
    told = [each for each in lines if any(mark in each for mark in marks)]
    return "\n".join(told[-2:] or lines[-3:])


def compare_bits(model: str, kind: str, plain: dict, options) -> dict:
    """`bits_equal`: null where the cut-down run told nothing, and why."""
    cut = measure(model, kind, CUT, options)
    for found in (plain, cut):
        if "failed" in found:
            return {"bits_equal": None, "bits_problem": found["failed"]}
    if cut["report"]["followed_steps"] == 0:
        return {"bits_equal": None, "bits_problem": "no plan was followed: " + str(cut["said"])}
    return {"bits_equal": cut["losses"] == plain["losses"]}


def line(model: str, kind: str, found: dict, plain: dict) -> str:
    if "failed" in found:
        return f"{model:<8}{kind:<12}failed (virtual time)\n{found['failed']}"
    host, calls = 1e3 * found["host_seconds"], 1e3 * found["host_seconds_of_calls"]
    columns = [
        f"{1e3 * found['seconds']:8.1f} ms virtual, x{found['seconds'] / plain['seconds']:.3f}",
        f"host {host:.1f} (calls {calls:.1f})",
        f"kernels {1e3 * found['kernel_seconds']:.1f}",
        f"{found['host_waits']:.0f} waits",
        f"{found['page_calls']:.0f} page calls",
        f"peak {found['peak_bytes'] / GIB:.2f} GiB",
    ]
    if "report" in found:
        report = found["report"]
        columns += [
            f"followed {report['followed_steps']} of {report['steps']}",
            f"violations {report['budget_violations']}",
        ]
    if "bits_equal" in found:
        told = {True: "equal", False: "DIFFER", None: "not told"}
        columns.append(f"bits {told[found['bits_equal']]}")
    return f"{model:<8}{kind:<12}" + ", ".join(columns)


def row_of(model: str, kind_of_model: str, rows: dict[str, dict]) -> dict:
    """As the issue of the engine on GPUs reads it."""
    plain = rows["plain"]
    row = {"name": model, "kind": kind_of_model, "rows": rows}
    if "failed" not in plain:
        row |= {"plain_seconds": plain["seconds"], "plain_host_waits": plain["host_waits"]}
    names = ("seconds", "host_waits", "page_calls", "bits_equal")
    for kind in BUDGETS:
        if kind in rows and "failed" not in rows[kind]:
            row[kind] = {k: rows[kind].get(k) for k in names}
    return row


def bench(options: argparse.Namespace) -> None:
    from _virtual_models import MODELS

    result = {"virtual": True, "repeats": {}}
    print("Virtual time of an emulated H100: no figure is a GPU's.", flush=True)
    for repeat, variables in REPEATS.items():
        if repeat != "table" and not options.repeats:
            continue
        models = result["repeats"][repeat] = []
        if options.repeats:
            print(f"-- {repeat}", flush=True)
        for model in options.models.split(","):
            rows: dict[str, dict] = {}
            cut_plain = None
            for kind in ["plain", *(k for k in options.kinds.split(",") if k != "plain")]:
                found = rows[kind] = measure(model, kind, REAL | variables, options)
                if kind in BUDGETS and repeat == "table" and not options.no_bits:
                    cut_plain = cut_plain or measure(model, "plain", CUT, options)
                    found |= compare_bits(model, kind, cut_plain, options)
                print(line(model, kind, found, rows["plain"]), flush=True)
                if "failed" in rows["plain"]:
                    break
            models.append(row_of(model, MODELS[model][1], rows))
            result["models"] = result["repeats"]["table"]
            if options.json:  # what is measured stays, though the next one were stopped
                options.json.write_text(json.dumps(result, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="gpt2,llama,vit,bert,resnet,unet")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--steps", type=int, default=10, help="that are measured")
    parser.add_argument("--seconds", type=float, default=60, help="real ones, for a plan")
    parser.add_argument("--limit", type=float, default=600, help="real seconds of a process")
    parser.add_argument("--pause", type=float, default=1, help="between two cut steps")
    parser.add_argument("--repeats", action="store_true", help="other hosts, links and memories")
    parser.add_argument("--no-bits", action="store_true", help="leave out the runs cut down")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if KIND in os.environ:
        options.json.write_text(json.dumps(train(options.models, os.environ[KIND], options)))
    elif not RUN.exists():
        print("emulated_gpu: not built, it needs torch 2.11 with CUDA 13, and nvcc")
    else:
        bench(options)


if __name__ == "__main__":
    main()
