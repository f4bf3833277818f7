"""Runs programs on the emulated GPU of tests/emulated_gpu: torch's CUDA build without a GPU."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import LIBRARIES, PLANNER, PYTHON, ROOT, STARTED_WITH, ended, free_port
from warm_interpreter import COLD, Interpreter, Popen

ON_DEVICE = LIBRARIES.parent / "emulated_gpu" / "run"
where_it_is_built = pytest.mark.skipif(
    not ON_DEVICE.exists(),
    reason="the emulated GPU was not built: it needs torch 2.11 with CUDA 13, and nvcc",
)
STREAMS = "nothing is dropped or spilled from now on"  # the plugin of a second stream
MIB = 1 << 20
# What decides a bit is the schedule's order of tasks, never the machine's.
SMALL = {"GPU_TEST_SIZES": "small", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}


GIVEN = {k: v for k, v in STARTED_WITH.items() if not k.startswith(("EBBTIDE", "EMULATED"))}
GIVEN["OMP_NUM_THREADS"] = "1"
# A process of its own imports torch's CUDA build in three seconds.
on_device = Interpreter(GIVEN | SMALL, under=(str(ON_DEVICE),))


@dataclass(frozen=True)
class Run:
    status: int
    result: dict
    report: dict | None
    output: str

    def bits(self) -> tuple:
        return tuple(self.result[key] for key in ("losses", "parameters", "random_state"))


class _Started(Popen):
    @staticmethod
    def forked_from() -> Interpreter | None:
        return None if COLD else on_device


def start(
    command: tuple[str, ...], variables: dict[str, str], imports_torch: bool = False
) -> tuple[int, str]:
    """Status and output. What imports torch is forked from a process that has."""
    environment = GIVEN | SMALL | variables
    forked = imports_torch and not COLD and on_device.takes(list(command), environment)
    with _Started(
        command if forked else (str(ON_DEVICE), *command),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        return ended(process)


def code(text: str, variables: dict[str, str] | None = None) -> tuple[int, str]:
    return start((PYTHON, "-c", text), variables or {}, imports_torch=True)


def train(program: str, variables: dict[str, str], folder: Path) -> Run:
    """`program`: file.name, of tests/gpu."""
    folder.mkdir(parents=True, exist_ok=True)
    out, report = folder / "result.json", folder / "report.json"
    if any(name.startswith("EBBTIDE") for name in variables):
        of_ours = {
            "EBBTIDE_REPORT": str(report),
            "EBBTIDE_LOG": "debug",
            "EBBTIDE_PORT": str(free_port()),
            "EBBTIDE_PLANNER": PLANNER,
        }
        variables = of_ours | variables
    file, name = program.split(".")
    settled = str(ROOT / "tests" / "e2e" / "settled.py")
    script = str(ROOT / "tests" / "gpu" / f"{file}.py")
    command = (PYTHON, settled, script, name, "--out", str(out))
    status, output = start(command, variables, imports_torch=True)
    result = json.loads(out.read_text()) if out.exists() else {}
    told = json.loads(report.read_text()) if report.exists() else None
    return Run(status, result, told, output)


def budget(plain: Run, share: float) -> int:
    """That share of the blocks' peak, and what others hold."""
    return int(share * plain.result["peak"]) + plain.result["others"]


def in_a_budget(program: str, share: float, folder: Path, **more: str) -> tuple[Run, ...]:
    """Plain, lazy; then in a budget, at random: another order of what streams do, the same bits."""
    lazy = {"EMULATED_GPU_SCHEDULE": "lazy"}
    plain = train(program, lazy, folder / "plain")
    assert plain.status == 0, plain.output
    variables = {
        "EMULATED_GPU_SCHEDULE": "random:3",
        "EBBTIDE_BUDGET": str(budget(plain, share)),
    }
    ours = train(program, variables | more, folder / "ours")
    assert ours.status == 0, ours.output
    assert ours.bits() == plain.bits(), ours.output
    assert ours.report is not None, ours.output
    assert ours.report["budget_violations"] == 0, ours.output
    return plain, ours
