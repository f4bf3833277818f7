"""Builds a pack and runs its tests, examples and benchmarks on this machine's GPU.

./dev gpu-test [--pack FOLDER] [--out FOLDER] [--only build,tests,examples,benchmarks]

Needs no network: a C++20 compiler, CMake, make or ninja, CUDA's toolkit, and a python3 with torch
and pytest. Leaves results.json and results.html in --out, with a log of each command beside them.
What needs a GPU is skipped, saying so, where there is none.
"""

import argparse
import html
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
TARGETS = (
    "ebbtide_loader ebbtide_torch ebbtide_torch_cuda ebbtide_solver plugin_core_test "
    "allocator_test allocator_cuda_test cuda_adapter_test nccl_profiler_test gpu_test "
    "executor_gpu_test"
).split()
CPP_TESTS = (
    "allocator_test",
    "allocator_cuda_test",
    "cuda_adapter_test",
    "nccl_profiler_test",
    "gpu_test",
    "executor_gpu_test",
)


@dataclass
class Outcome:
    name: str
    status: str  # passed, failed, skipped
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    values: dict = field(default_factory=dict)


class Run:
    def __init__(self, pack: Path, build: Path, out: Path, deadline: float) -> None:
        self.source = pack / "source"
        self.packed = pack / "third_party"
        self.build = build
        self.out = out
        self.deadline = deadline
        self.outcomes: list[Outcome] = []
        self.site = build / "site"

    # -- commands ---------------------------------------------------------------------------------

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
        paths = [str(self.site), kept.get("PYTHONPATH", "")]
        libraries = [str(self.packed / "lib"), kept.get("LD_LIBRARY_PATH", "")]
        kept["PYTHONPATH"] = ":".join(filter(None, paths))
        kept["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
        kept |= variables
        return {k: v for k, v in kept.items() if v}

    def call(
        self, name: str, command: list[str], variables: dict[str, str] | None = None
    ) -> tuple[int, str, float]:
        """Status, output, seconds; at the deadline it ends. The output goes to <name>.log."""
        begin = time.monotonic()
        print(f"==> {name}", flush=True)
        try:
            process = subprocess.Popen(
                command,
                cwd=self.source,
                env=self.environment(variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                process_group=0,
            )
        except OSError as error:
            status, output = 127, str(error)
        else:
            status, output = finish(process, max(5.0, self.deadline - begin))
        (self.out / f"{name}.log").write_text(output)
        return status, output, time.monotonic() - begin

    def note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
        print(
            f"    {outcome.status}: {outcome.note or counts} ({outcome.seconds:.1f} s)", flush=True
        )

    # -- steps ------------------------------------------------------------------------------------

    def configure_and_build(self) -> bool:
        torch = torch_folder()
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
        stale = self.build / "CMakeCache.txt"
        if stale.exists() and f"={self.source}\n" not in stale.read_text():
            shutil.rmtree(self.build)
        self.build.mkdir(parents=True, exist_ok=True)
        options = {
            "CMAKE_BUILD_TYPE": "RelWithDebInfo",
            "CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O2 -DNDEBUG",
            "CMAKE_PREFIX_PATH": self.packed / "cmake",
            "Boost_DIR": self.packed / "cmake",
            "ZLIB_INCLUDE_DIR": self.packed / "include",
            "ZLIB_LIBRARY": self.packed / "lib" / "libz.a",
            "EBBTIDE_TORCH_ROOT": torch,
            "EBBTIDE_PYTHON": sys.executable,
            "EBBTIDE_CUDA": "ON",
            "EBBTIDE_WARNINGS_ARE_ERRORS": "OFF",
            "EBBTIDE_CUDA_ROOT": Path(nvcc).resolve().parents[1],
        } | {f"{name}_DIR": self.packed / "cmake" for name in packages(self.packed)}
        command = ["cmake", "-S", str(self.source), "-B", str(self.build), "-G", generator]
        command += [f"-D{name}={value}" for name, value in options.items()]
        status, output, seconds = self.call("configure", command)
        self.note(one("configure", status, seconds, last_lines(output, 1)))
        if status != 0:
            print(last_lines(output, 30))
            return False
        known = self.known_targets()
        targets = [name for name in TARGETS if name in known]
        command = ["cmake", "--build", str(self.build), "-j", str(os.cpu_count() or 2)]
        # One target that fails must not cost the others: time on such a machine is dear.
        command += ["--target", *targets, "--", *(["-k", "0"] if generator == "Ninja" else ["-k"])]
        status, output, seconds = self.call("build", command)
        left_out = sorted(set(TARGETS) - set(targets))
        note = f"without {', '.join(left_out)}" if left_out else "all targets"
        self.note(one("build", status, seconds, note))
        if status != 0:
            print(last_lines(output, 40))
        return (self.build / "lib" / "libebbtide_torch_cuda.so").exists()

    def known_targets(self) -> set[str]:
        listed = subprocess.run(
            ("cmake", "--build", str(self.build), "--target", "help"),
            capture_output=True,
            text=True,
        )
        return set(re.findall(r"^(?:\.\.\. )?([\w-]+)", listed.stdout, re.MULTILINE))

    def lay_out_package(self) -> None:
        """The package as a wheel would lie: torch finds its entry point on PYTHONPATH."""
        shutil.rmtree(self.site, ignore_errors=True)
        package = self.site / "ebbtide"
        information = self.site / "ebbtide-0.dist-info"
        shutil.copytree(self.source / "plugin" / "python" / "ebbtide", package)
        for library in (self.build / "lib").glob("lib*ebbtide*.so"):
            shutil.copy(library, package)
        solver = self.build / "bin" / "ebbtide-solver"
        if solver.exists():
            shutil.copy(solver, package)
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: ebbtide\nVersion: 0\n")
        (information / "entry_points.txt").write_text(
            "[torch.backends]\nebbtide = ebbtide._autoload:load\n"
        )

    def cpp_tests(self) -> None:
        for name in CPP_TESTS:
            program = self.build / "bin" / name
            if not program.exists():
                self.note(Outcome(name, "skipped", note="not built"))
                continue
            report = self.out / f"{name}.json"
            command = [str(program), f"--gtest_output=json:{report}"]
            status, output, seconds = self.call(name, command)
            outcome = one(name, status, seconds, "" if status == 0 else last_lines(output, 3))
            if report.exists():
                count_gtest(outcome, json.loads(report.read_text()))
            self.note(outcome)

    def python_tests(self) -> None:
        report = self.out / "torch_gpu.xml"
        command = [sys.executable, "-m", "pytest", "tests/gpu", "-q", "-rs"]
        command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
        status, output, seconds = self.call("torch_gpu", command)
        outcome = one("torch_gpu", status, seconds, "" if status == 0 else last_lines(output, 3))
        if report.exists():
            count_junit(outcome, report)
        self.note(outcome)

    def examples(self) -> None:
        """A few steps of the example, with torch's allocator and with ours."""
        if not gpu_there():
            self.note(Outcome("examples", "skipped", note="no GPU"))
            return
        for name, variables in (
            ("gpt-torch", {}),
            ("gpt-ebbtide", {"EBBTIDE": "1"}),
            ("gpt-budget", {"EBBTIDE_BUDGET": "8GiB"}),
        ):
            result = self.out / f"{name}.json"
            command = [sys.executable, "examples/train_gpt.py", "--device", "cuda", "--steps", "12"]
            status, output, seconds = self.call(name, [*command, "--out", str(result)], variables)
            outcome = one(name, status, seconds, last_lines(output, 1))
            if result.exists():
                outcome.values = json.loads(result.read_text())
            self.note(outcome)

    def benchmarks(self) -> None:
        self.calls()
        result = self.out / "gpu_allocator.json"
        command = [sys.executable, "benchmarks/gpu_allocator.py", "--out", str(result)]
        status, output, seconds = self.call("gpu_allocator", command)
        outcome = one("gpu_allocator", status, seconds, last_lines(output, 1)[:200])
        if result.exists():
            outcome.values = json.loads(result.read_text())
            if "skipped" in outcome.values:
                outcome.status = "skipped"
        self.note(outcome)

    def calls(self) -> None:
        """What CUDA's own calls cost here."""
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        program = str(self.build / "gpu_calls")
        command = [nvcc, "-std=c++20", "-O2", "-o", program, "benchmarks/gpu_calls.cu", "-lcuda"]
        if not gpu_there():
            self.note(Outcome("gpu_calls", "skipped", note="no GPU"))
            return
        status, output, seconds = self.call("gpu_calls_build", command)
        if status == 0:
            status, output, seconds = self.call("gpu_calls", [program])
        outcome = one("gpu_calls", status, seconds, last_lines(output, 1)[:200])
        if status == 0:
            outcome.values = json.loads(output[output.index("{") :])
        self.note(outcome)

    # -- results ----------------------------------------------------------------------------------

    def write(self) -> None:
        result = {"machine": machine(), "outcomes": [asdict(outcome) for outcome in self.outcomes]}
        (self.out / "results.json").write_text(json.dumps(result, indent=2))
        (self.out / "results.html").write_text(page(result))


def finish(process: subprocess.Popen, seconds: float) -> tuple[int, str]:
    """Status and output. What it started ends with it: a compiler or a kernel left behind would
    take its time from the next command."""
    note = ""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        note = "\nstopped: no time is left"
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return (124 if note else process.returncode), output + note


def packages(packed: Path) -> list[str]:
    suffix = "ConfigVersion.cmake"
    return [f.name.removesuffix(suffix) for f in (packed / "cmake").glob(f"*{suffix}")]


def one(name: str, status: int, seconds: float, note: str) -> Outcome:
    return Outcome(name, "passed" if status == 0 else "failed", seconds, note=note)


def last_lines(text: str, count: int) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def count_gtest(outcome: Outcome, report: dict) -> None:
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            skipped = test.get("result") == "SKIPPED"
            outcome.skipped += skipped
            outcome.failed += bool(test.get("failures")) and not skipped
            outcome.passed += not skipped and not test.get("failures")
    if outcome.status == "passed" and outcome.passed == 0:
        outcome.status = "skipped"


def count_junit(outcome: Outcome, report: Path) -> None:
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        outcome.skipped += int(suite.get("skipped", 0))
        outcome.failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        outcome.passed += int(suite.get("tests", 0))
    outcome.passed -= outcome.skipped + outcome.failed
    if outcome.status == "passed" and outcome.passed == 0:
        outcome.status = "skipped"


def torch_folder() -> Path:
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        sys.exit(f"gpu-test: {sys.executable} has no torch")
    return Path(found.submodule_search_locations[0])


def gpu_there() -> bool:
    asked = subprocess.run(
        (sys.executable, "-c", "import torch; print(torch.cuda.is_available())"),
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")},
    )
    return asked.stdout.strip().endswith("True")


def machine() -> dict[str, str]:
    commands = {
        "gpu": "nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader",
        "nvcc": "nvcc --version | tail -n 1",
        "compiler": "c++ --version | head -n 1",
        "cmake": "cmake --version | head -n 1",
        "python": f"{sys.executable} --version",
        "torch": f"{sys.executable} -c 'import torch; print(torch.__version__)'",
        "cores": "nproc",
    }
    answers = {}
    for name, command in commands.items():
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        answers[name] = done.stdout.strip() or "none"
    return answers


def page(result: dict) -> str:
    def row(*cells: object) -> str:
        return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"

    machine_rows = "".join(row(*pair) for pair in result["machine"].items())
    rows = ""
    for o in result["outcomes"]:
        values = json.dumps(o["values"]) if o["values"] else ""
        counts = f"{o['passed']} / {o['failed']} / {o['skipped']}"
        seconds = f"{o['seconds']:.1f}"
        rows += row(o["name"], o["status"], counts, seconds, o["note"], values[:2000])
    return (
        "<!doctype html><meta charset=utf-8><title>Ebbtide on a GPU</title>"
        "<style>body{font:14px sans-serif;margin:2em}td{border:1px solid #ccc;padding:4px 8px;"
        "vertical-align:top;white-space:pre-wrap}table{border-collapse:collapse;margin-bottom:2em}"
        "</style><h1>Ebbtide on a GPU</h1>"
        f"<table>{machine_rows}</table><table>"
        + row("what", "outcome", "passed / failed / skipped", "seconds", "note", "values")
        + f"{rows}</table>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # The pack that this file is in, or the checkout's.
    inside = (HERE.parent / "third_party").exists()
    parser.add_argument("--pack", type=Path, default=HERE.parent if inside else HERE / "gpu-pack")
    parser.add_argument("--build", type=Path, help="kept between runs; build/gpu-test")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--only", default="build,tests,examples,benchmarks")
    parser.add_argument("--minutes", type=float, default=60, help="of all together")
    options = parser.parse_args()
    pack, steps = options.pack.resolve(), options.only.split(",")
    if not (pack / "third_party").exists():
        sys.exit(f"gpu-test: no pack in {pack}; ./dev gpu-pack makes one")
    build = (options.build or pack.parent / "build" / "gpu-test").resolve()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    run = Run(pack, build, out, time.monotonic() + 60 * options.minutes)
    built = "build" not in steps or run.configure_and_build()
    if built and (build / "lib").exists():
        run.lay_out_package()
        if "tests" in steps:
            run.cpp_tests()
            run.python_tests()
        if "examples" in steps:
            run.examples()
        if "benchmarks" in steps:
            run.benchmarks()
    run.write()
    failed = [outcome.name for outcome in run.outcomes if outcome.status == "failed"]
    print(f"gpu-test: results in {out}; " + (f"failed: {', '.join(failed)}" if failed else "green"))
    sys.exit(1 if failed or not built else 0)


if __name__ == "__main__":
    main()
