"""`ebbtide prove` and `ebbtide fit` that are killed in mid-run, as by the out-of-memory killer.

Nothing that they started goes on, and the next start removes the folder of their run.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from processes import TIMEOUT_SECONDS, Program, environment, script
from test_prove import EBBTIDE
from tiers import nightly_but
from warm_interpreter import heed_interrupts

VERBS = {"prove": "fit", "fit": "prove"}  # each with the one that starts next
# Two children: one in a session of its own, as torchrun's ranks are, and one that ignores SIGTERM.
# The command has begun once both are set up.
STARTS = """
setsid sh -c 'touch away; exec sleep 1000' &
(trap '' TERM; touch deaf; exec sleep 1000) &
until [ -e away ] && [ -e deaf ]; do sleep 0.05; done
touch begun
exec sleep 1000
"""


def start(verb: str, folder: Path, command: Sequence[str]) -> subprocess.Popen:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    options = ("--budget", "1GiB", "--steps", "1000000")  # more than it makes before it is killed
    variables = environment(Program(()), {"EBBTIDE_LOG": "info"}, folder)
    return subprocess.Popen(
        [EBBTIDE, verb, *options, "--", *command],
        env=variables | {"TMPDIR": str(temporary)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )


def status_of(process: int) -> list[str]:
    """State, parent and so on, as proc(5) has them after the name; none: it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def lives(process: int) -> bool:
    """Not a zombie: the machine's first process may be one that waits for none."""
    status = status_of(process)
    return bool(status) and status[0] not in "ZX"


def started_by(process: int) -> list[int]:
    """Its children, and theirs."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    parents = {number: int(status[1]) for number in numbers if (status := status_of(number))}
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def check_killed(
    verb: str, folder: Path, command: Sequence[str], has_begun: Callable[[], bool], least: int
) -> None:
    """`least`: of processes that it has started by then."""
    with start(verb, folder, command) as process:
        try:
            wait_until(lambda: has_begun() or process.poll() is not None, "it has not begun")
            started = started_by(process.pid)
        finally:
            process.kill()
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == -signal.SIGKILL, output
    assert len(started) >= least, output
    try:
        wait_until(lambda: not any(map(lives, started)), f"some of {started} go on")
    finally:
        for one in filter(lives, started):
            os.kill(one, signal.SIGKILL)
    (left,) = (folder / "tmp").glob("ebbtide-*")  # torch makes a folder, too
    assert left.name.startswith(f"ebbtide-{verb}-"), left
    with start(VERBS[verb], folder, ["true"]) as following:
        output, _ = following.communicate(timeout=TIMEOUT_SECONDS)
    assert "no process of the command imported torch" in output, output
    assert not list((folder / "tmp").glob("ebbtide-*"))


@pytest.mark.quick
@pytest.mark.parametrize("verb", nightly_but({"fit"}, VERBS))
def test_what_it_started_ends_with_it(verb: str, tmp_path: Path) -> None:
    """The shell, its two children, and what the verb itself has between them."""
    check_killed(verb, tmp_path, ["sh", "-c", STARTS], (tmp_path / "begun").exists, least=4)


@pytest.mark.nightly  # the test above stands for it
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("verb", VERBS)
def test_so_do_the_ranks_of_a_training(verb: str, ranks: int, tmp_path: Path) -> None:
    """From its third step on, in the first of the verb's runs: half a minute with torchrun."""
    program = script("tests/e2e/fit_train.py", "--steps", "1000000", ranks=ranks)

    def has_begun() -> bool:
        outputs = (tmp_path / "tmp").glob(f"ebbtide-{verb}-*/*/output.txt")
        # Lines of ranks may be mixed. None is more than a step ahead of the other.
        return any(output.read_text().count("step ") >= 4 * ranks for output in outputs)

    least = 1 + (ranks > 1) + ranks  # what the verb has between them, torchrun, its ranks
    check_killed(verb, tmp_path, program.command, has_begun, least)
