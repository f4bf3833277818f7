"""What ./dev gpu-test does with a command that does not end."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from processes import ROOT

pytestmark = pytest.mark.quick


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "gpu" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses ask for it
    spec.loader.exec_module(module)
    return module


def start(script: str) -> subprocess.Popen:
    return subprocess.Popen(
        ("sh", "-c", script), stdout=subprocess.PIPE, text=True, process_group=0
    )


def state_of(process: int) -> str:
    """Z: gone, or not collected yet by whoever inherited it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2]
    except FileNotFoundError:
        return "Z"


def test_nothing_of_a_command_is_left_behind() -> None:
    process = start("sleep 600 & echo $!; wait")
    child = int(process.stdout.readline())
    status, output = load("run").finish(process, 0.1)
    assert (status, output) == (124, "\nstopped: no time is left")
    latest = time.monotonic() + 120  # a process that was killed ends when it is its turn
    while state_of(child) != "Z" and time.monotonic() < latest:
        time.sleep(0.01)
    assert state_of(child) == "Z", f"process {child} goes on"
    assert os.getpgid(0) != process.pid


def test_what_ends_says_how() -> None:
    assert load("run").finish(start("echo out; exit 3"), 300) == (3, "out\n")
