"""`ebbtide prove`: a command three times, and what it says of the parameters."""

import json
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import (
    LIBRARIES,
    PYTHON,
    ROOT,
    TIMEOUT_SECONDS,
    Program,
    code,
    environment,
    free_port,
    run,
    torchrun,
)
from warm_interpreter import heed_interrupts, python

EBBTIDE = LIBRARIES.parent / "bin" / "ebbtide"
SCRIPT = str(ROOT / "tests/e2e/proved_train.py")
BUDGET = "36MiB"  # of 62 MiB


@dataclass(frozen=True)
class Proof:
    """A folder of a test's own, in which temporary files are looked for."""

    folder: Path

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def start(self, *arguments: str, variables: dict[str, str] | None = None) -> subprocess.Popen:
        """Programs are forked from an interpreter that has torch, as those of other tests are."""
        self.temporary.mkdir()
        arguments = tuple(python() if word == PYTHON else word for word in arguments)
        given = {"EBBTIDE_LOG": "info"} if variables is None else variables
        return subprocess.Popen(
            [EBBTIDE, "prove", *arguments],
            env=environment(Program(()), given, self.folder) | {"TMPDIR": str(self.temporary)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )

    def run(self, *arguments: str, **named: dict[str, str]) -> subprocess.CompletedProcess:
        with self.start(*arguments, **named) as process:
            try:
                out, err = process.communicate(timeout=2 * TIMEOUT_SECONDS)
            except BaseException:
                process.terminate()
                raise
        assert not list(self.temporary.glob("ebbtide-prove-*")), "a folder was left"
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.fixture
def proof(tmp_path: Path) -> Proof:
    return Proof(tmp_path)


def trains(variant: str, *options: str) -> list[str]:
    return ["--", PYTHON, SCRIPT, variant, *options]


# --- verdicts -------------------------------------------------------------------------------------


def test_a_training_is_the_same_under_a_budget(proof: Proof) -> None:
    """And the variables that each run has, what is kept, and the figures of the report."""
    kept = proof.folder / "kept"
    done = proof.run(
        *("--steps", "12", "--budget", BUDGET, "--keep", "kept", *trains("plain")),
        variables={"EBBTIDE_BUDGET": "1TiB"},
    )
    assert done.returncode == 0, done.stderr
    line = r"identical for 12 steps; (\d+) → (\d+) MiB; \d+\.\d\dx; plain repeats itself: yes\n"
    found = re.fullmatch(line, done.stdout)
    assert found, done.stdout + done.stderr
    report = json.loads((kept / "budget" / "report-0.json").read_text())
    mib = [report[f"{kind}_peak_bytes"] / 2**20 for kind in ("plain", "mapped")]
    assert [f"{size:.0f}" for size in mib] == list(found.groups())
    assert report["followed_steps"] > 3 and report["budget_bytes"] == 36 * 2**20
    for plain in ("plain", "plain-again"):
        assert (kept / plain / "output.txt").read_text() == "EBBTIDE_PROOF\n"
    names = (kept / "budget" / "output.txt").read_text().splitlines()[0]
    assert {"EBBTIDE_BUDGET", "EBBTIDE_PORT", "EBBTIDE_REPORT"} < set(names.split())
    assert not (proof.folder / "report-0.json").exists()  # the user's own


def test_so_is_one_of_two_ranks(proof: Proof) -> None:
    command = [*torchrun(2), SCRIPT, "plain"]
    done = proof.run("--steps", "10", "--budget", BUDGET, "--json", "--", *command)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["text"].startswith("identical for 10 steps; ")
    assert told["processes"] == 2 and told["plain_repeats"] and told["planned_from_step"] > 1


@pytest.mark.nightly  # that of torchrun stands for it
def test_so_is_one_of_spawned_ranks(proof: Proof) -> None:
    """No variable tells their rank, and the process that started them never updates."""
    command = trains("plain", "--spawn", str(free_port()))
    done = proof.run("--steps", "8", "--budget", BUDGET, "--json", *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2


@pytest.mark.parametrize(
    ("rank", "command"),
    [(0, [PYTHON]), pytest.param(1, torchrun(2), marks=pytest.mark.nightly)],
    ids=["alone", "torchrun"],
)
def test_a_difference_is_named(proof: Proof, rank: int, command: list[str]) -> None:
    """On two ranks that of the last one: the other one differs from the next update on."""
    done = proof.run("--steps", "6", "--budget", BUDGET, "--", *command, SCRIPT, "told")
    assert done.returncode == 1
    said = f"not identical: update 4 on rank {rank} differs; "
    assert done.stdout.startswith(said), done.stdout + done.stderr
    assert done.stdout.endswith("; plain repeats itself: yes\n")


@pytest.mark.nightly  # tests/cli/verdict_test.cpp stands for it
def test_what_does_not_repeat_itself_is_not_judged(proof: Proof) -> None:
    done = proof.run("--steps", "5", "--budget", BUDGET, *trains("unseeded"))
    assert done.returncode == 1
    assert done.stdout.startswith("plain repeats itself: no, update 3 on rank 0 differs; nothing")


@pytest.mark.nightly  # tests/cli/verdict_test.cpp stands for it
def test_a_program_may_end_before(proof: Proof) -> None:
    done = proof.run("--budget", BUDGET, *trains("short"))
    assert done.returncode == 0, done.stderr
    said = "identical for 6 steps (the program ended there; 20 were asked for); "
    assert done.stdout.startswith(said)


# --- what cannot be judged ------------------------------------------------------------------------


def test_without_an_optimizer_no_update_is_seen(proof: Proof) -> None:
    done = proof.run("--budget", BUDGET, *trains("by_hand"))
    assert done.returncode == 1 and not done.stdout
    assert "no optimizer of torch.optim made a step" in done.stderr


def test_a_command_that_fails_shows_its_end(proof: Proof) -> None:
    done = proof.run("--budget", BUDGET, *trains("fails"))
    assert done.returncode == 1 and not done.stdout
    lines = done.stderr.splitlines()
    assert lines[0].startswith("ebbtide: plain run: 2 updates in 1 process, ")
    assert lines[-2] == "RuntimeError: deliberate"
    assert lines[-1].startswith("ebbtide: the plain run ended with exit status 1. Above are its")
    assert len(lines) <= 22


@pytest.mark.quick
def test_a_run_has_a_time(proof: Proof) -> None:
    # The time is over once the shell has spoken, however late that is on a busy machine.
    over = proof.folder / "over"
    variables = {
        "EBBTIDE_LOG": "info",
        "LATE_CLOCK": str(over),
        "LD_PRELOAD": str(LIBRARIES / "libebbtide_late_clock.so"),
    }
    script = f"echo begun; touch {over}; sleep 1000"
    timeout = "--budget 1GiB --timeout 3600 -- sh -c".split()
    done = proof.run(*timeout, script, variables=variables)
    assert done.returncode == 1
    assert "begun\nebbtide: the plain run did not end within 3600 s. " in done.stderr


@pytest.mark.quick
@pytest.mark.parametrize("interrupt", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(proof: Proof, interrupt: signal.Signals) -> None:
    script = "setsid sleep 1000 & echo $! > started.tmp; mv started.tmp started; sleep 1000"
    with proof.start("--budget", "1GiB", "--", "sh", "-c", script) as process:
        while not (proof.folder / "started").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(interrupt)
        assert process.wait(TIMEOUT_SECONDS) == -interrupt
    assert not list(proof.temporary.iterdir())
    other_session = (proof.folder / "started").read_text().strip()
    assert not Path("/proc", other_session).exists()


# --- the module in the program --------------------------------------------------------------------


def test_checksums_tell_apart_and_run_no_operation(tmp_path: Path) -> None:
    program = Program((PYTHON, str(ROOT / "tests/e2e/proof_checksums.py")))
    assert run(program, {}, tmp_path, out=False).succeeded().output == "checked\n"


def updates_of(text: str, folder: Path, updates: int, start: str = "") -> list[list[dict]]:
    """What each process of a program wrote; it has this variable of ours alone."""
    logs = folder / "logs"
    logs.mkdir()
    start = start or python()
    program = Program(("env", f"EBBTIDE_PROOF={logs}:{updates}", start, "-c", text))
    run(program, {}, folder, out=False).succeeded()
    return [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(logs.glob("*.jsonl"))
    ]


PREAMBLE = """
import atexit, os, sys, torch
assert 'libebbtide' not in open('/proc/self/maps').read()
weight = torch.nn.Parameter(torch.ones(3))
inner = torch.optim.SGD([weight], lr=0.1)
def backward():
    weight.square().sum().backward()
"""


def test_a_process_ends_as_an_interpreter_does(tmp_path: Path) -> None:
    """After its exit functions, with what it had printed, and nothing of ours was loaded."""
    text = PREAMBLE + (
        "atexit.register(lambda: open('exited', 'w').write('yes'))\n"
        "sys.stdout = open('printed', 'w')\n"
        "print('begun')\n"
        "for _ in range(5):\n    backward()\n    inner.step()\n"
        "print('not reached')\n"
    )
    (lines,) = updates_of(text, tmp_path, 3, start=PYTHON)
    assert [line.get("update") for line in lines] == [None, 1, 2, 3, None]
    assert lines[-1] == {"end": 3}
    assert (tmp_path / "exited").read_text() == "yes"
    assert (tmp_path / "printed").read_text() == "begun\n"


def test_an_optimizer_within_another_makes_no_update(tmp_path: Path) -> None:
    """Also after a step that raised."""
    text = PREAMBLE + (
        "class Outer(torch.optim.Optimizer):\n"
        "    def __init__(self):\n        super().__init__([weight], {})\n"
        "    def step(self, fail=False):\n"
        "        inner.step()\n"
        "        if fail:\n            raise ValueError\n"
        "outer = Outer()\n"
        "backward()\n"
        "try:\n    outer.step(fail=True)\nexcept ValueError:\n    pass\n"
        "outer.step()\nouter.step()\n"
    )
    (lines,) = updates_of(text, tmp_path, 9)
    assert [line["update"] for line in lines[1:]] == [1, 2]


def test_a_forked_child_has_a_file_of_its_own(tmp_path: Path) -> None:
    """And not its parent's exit functions."""
    text = PREAMBLE + (
        "atexit.register(lambda: open('exited', 'a').write('x'))\n"
        "backward()\ninner.step()\n"
        "child = os.fork()\n"
        "for _ in range(3):\n    backward()\n    inner.step()\n"
        "    if child and _ == 0:\n        assert os.waitpid(child, 0)[1] == 0\n"
    )
    logs = updates_of(text, tmp_path, 3)
    made = [[line["update"] for line in log if "update" in line] for log in logs]
    assert made == [[1, 2, 3], [1, 2, 3]]
    assert (tmp_path / "exited").read_text() == "x"


def test_ranks_that_make_updates_still_are_late(tmp_path: Path) -> None:
    """A rank whose process is gone is not late."""
    text = (
        "import os, pathlib, subprocess\n"
        "from ebbtide._proof import _processes\n"
        "folder = pathlib.Path('logs')\n"
        "folder.mkdir()\n"
        "gone = subprocess.Popen(['true'])\n"
        "gone.wait()\n"
        "for pid, end in (1, True), (os.getpid(), False), (gone.pid, False):\n"
        "    text = '{}\\n{\"update\": 1}\\n' + ('{\"end\": 1}\\n' if end else '')\n"
        "    (folder / f'{pid}.jsonl').write_text(text)\n"
        "assert _processes(folder) == (1, 1), _processes(folder)\n"
    )
    run(code(text), {}, tmp_path, out=False).succeeded()


def test_a_proof_that_cannot_be_meant_ends_the_program(tmp_path: Path) -> None:
    done = run(code("import torch"), {"EBBTIDE_PROOF": "/no/such:3"}, tmp_path, out=False)
    assert done.status == 2
    assert re.search(r"EBBTIDE_PROOF=/no/such:3: write FOLDER:N, .* \[EB67\]$", done.output, re.M)


def test_what_the_proof_variable_says_is_cut_and_is_a_number(tmp_path: Path) -> None:
    """'²' is a digit to Python, and no number. Of a long text 200 characters are shown."""
    text = (
        "from ebbtide import _proof\n"
        "for text in '.:²', '.:' + '9' * 5000, '.:0', '\\x1b[2J\\n:3', 300 * 'x':\n"
        "    try:\n"
        "        _proof.arm(text)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    done = run(code(text), {}, tmp_path, out=False).succeeded()
    shown = [".:²", ".:" + 198 * "9" + "…", ".:0", r"\x1b[2J\n:3", 200 * "x" + "…"]
    end = ": write FOLDER:N, a folder that exists and updates"
    assert done.output.splitlines() == [f"EBBTIDE_PROOF={one}{end}" for one in shown]
