"""What the plugin's hand costs a training: ./dev bench hand.

Two programs train in processes of one core, a block of steps each in turns: plain PyTorch (twice:
how far two equal runs differ), EBBTIDE=1, a budget that fits, and a budget that needs a plan. A
block's figure is the processor time of the thread that trains; a row's ratio is the median over
turns of its block beside plain's in the same turn.

  mlp     20 layers, 64 wide, batch 32: an operator takes a microsecond, whoever runs it
  chain   300 operators that read 128 KiB each, and save it: what a plan drops is run again alone

An operator is one that PyTorch dispatches, backward and optimizer included; of a followed step the
cost is also told for each operator of the forward pass, which is what a plan follows. A replay is
timed by the clock from its inputs to its comparison, the least of all turns; beside it the least
that its kernel takes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _hand_training import CHAIN_OPS

TRAINING = Path(__file__).resolve().parent / "_hand_training.py"
CORE = min(os.sched_getaffinity(0))
STEPS = {"mlp": 40, "chain": 10}  # of a block
WARM_UP_STEPS = {"mlp": 100, "chain": 10}
FITS, PLANNED = "400MiB", "30MiB"  # chain saves 38 MiB
FOLLOWED_STEPS = 8  # before a plan's steps are timed
MOST_WAITS = 200


class Training:
    """A process, and what it is asked."""

    def __init__(self, program: str, variables: dict[str, str], folder: Path) -> None:
        self._program = program
        clean = {name: value for name, value in os.environ.items() if "EBBTIDE" not in name}
        own = {"OMP_NUM_THREADS": "1", "EBBTIDE_SOCKET_DIR": str(folder), "EBBTIDE_LOG": "warning"}
        if not variables:
            own = {"OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            ["taskset", "-c", str(CORE), sys.executable, str(TRAINING), program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean | own | variables,
            text=True,
        )
        self.blocks: list[float] = []  # microseconds a step
        self.replays: list[float] = []  # microseconds each

    def ask(self, what: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the training of {self._program} ended")
        return json.loads(line)

    def warm_up(self, follows: bool) -> None:
        self.ask(f"steps {WARM_UP_STEPS[self._program]}")
        for _ in range(MOST_WAITS if follows else 0):
            if self.ask("stats")["totals"]["followed_steps"] >= FOLLOWED_STEPS:
                return
            time.sleep(0.1)
            self.ask("steps 2")
        if follows:
            raise SystemExit("no plan is followed")

    def run_block(self, follows: bool) -> None:
        before = self.ask("stats")["totals"] if follows else {}
        steps = STEPS[self._program]
        self.blocks.append(self.ask(f"steps {steps}") / steps / 1e3)
        if follows:
            after = self.ask("stats")["totals"]
            ops, seconds = (
                after[name] - before[name] for name in ("recomputed_ops", "recompute_seconds")
            )
            if ops:
                self.replays.append(seconds / ops * 1e6)

    def end(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


def measure(program: str, turns: int, folder: Path) -> None:
    kinds: dict[str, dict[str, str]] = {
        "plain": {},
        "plain again": {},
        "EBBTIDE=1": {"EBBTIDE": "1"},
        "a budget that fits": {"EBBTIDE_BUDGET": FITS},
    }
    if program == "chain":
        kinds["a plan is followed"] = {"EBBTIDE_BUDGET": PLANNED, "EBBTIDE_OFFLOAD": "never"}
    runs = {}
    for number, (kind, variables) in enumerate(kinds.items()):
        port = {"EBBTIDE_PORT": str(24000 + number)} if variables else {}
        runs[kind] = Training(program, variables | port, folder)
        runs[kind].warm_up("plan" in kind.split())
    operators = runs["plain"].ask("dispatched")
    for _ in range(turns):
        for kind, run in runs.items():
            run.run_block("plan" in kind.split())
    plain = runs["plain"].blocks
    step = statistics.median(plain)
    print(f"{program}: {operators} operators and {step:.0f} us of processor time a step")
    for kind, run in runs.items():
        ratio = statistics.median(a / b for a, b in zip(run.blocks, plain, strict=True))
        cost = (ratio - 1) * step
        line = f"  {kind:20} {ratio:.3f}x {cost / operators:+8.2f} us an operator"
        if run.replays:
            line += f", {cost / CHAIN_OPS:.2f} us one of the forward pass, replays included"
        print(line)
        if run.replays:
            least, kernel = min(run.replays), runs["plain"].ask("kernel") / 1e3
            print(f"  {'a replay':20} {least:.1f} us, its kernel {kernel:.1f}")
    for run in runs.values():
        run.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=25)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        for program in STEPS:
            measure(program, turns, Path(folder))


if __name__ == "__main__":
    main()
