"""Puts each fault of table.py into a copy of the sources and runs the test that must find it.

run.py [NAME ...]    runs all, or those named; ends with 1 when a test misses one

The copy is build/mutations, with a build of its own: a fault costs the compilation of one file. The
checkout stays as it is.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mutation import EndToEnd, Mutation, OnGpu, OnHost, Test
from table import MUTATIONS

ROOT = Path(__file__).resolve().parents[3]
COPY = ROOT / "build" / "mutations"
BUILT = COPY / "build" / "release"
SECONDS_OF_A_TEST = 300  # a fault may make it hang: found
TARGETS_OF_A_TRAINING = ("ebbtide_package", "ebbtide_cli", "emulated_gpu")


class Broken(Exception):
    """No verdict: the table, the build or a test is at fault, not the product."""


@dataclass(frozen=True)
class Ended:
    status: int
    output: str


def run(command: Iterable[str], variables: dict[str, str], seconds: float | None = None) -> Ended:
    given = {k: v for k, v in os.environ.items() if not k.startswith(("EBBTIDE", "EMULATED"))}
    try:
        done = subprocess.run(
            list(command),
            cwd=COPY,
            env=given | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as ended:
        return Ended(124, str(ended.stdout or ""))
    return Ended(done.returncode, done.stdout)


# -------------------------------------------------------------------------------------------------
# the copy


def sources() -> list[str]:
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).is_file()]


def copy_sources() -> None:
    """What has not changed keeps its time, so that it is not built again."""
    for name in sources():
        source, target = ROOT / name, COPY / name
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def link_packages() -> None:
    """A virtual environment with the checkout's packages, but for the plugin."""
    folder = COPY / ".venv"
    if not (folder / "bin" / "python").exists():
        subprocess.run((sys.executable, "-m", "venv", "--without-pip", folder), check=True)
    (theirs,) = (ROOT / ".venv" / "lib").glob("python*/site-packages")
    ours = folder / "lib" / theirs.parent.name / "site-packages"
    for package in theirs.iterdir():
        link = ours / package.name
        if not package.name.startswith("ebbtide") and not link.is_symlink():
            link.symlink_to(package)


def build(targets: Iterable[str]) -> None:
    ended = run(("./dev", "build", "release", *targets), {})
    if ended.status != 0:
        raise Broken("it does not build:\n" + ended.output[-4000:])


# -------------------------------------------------------------------------------------------------
# tests


def targets_of(test: Test) -> tuple[str, ...]:
    if isinstance(test, EndToEnd):
        return TARGETS_OF_A_TRAINING
    return (test.target, "emulated_gpu") if isinstance(test, OnGpu) else (test.target,)


def start(test: Test) -> Ended:
    if isinstance(test, EndToEnd):
        python = str(COPY / ".venv" / "bin" / "python")
        command = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.test)
        return run(command, {"TESTED_PRESET": "release"}, SECONDS_OF_A_TEST)
    (program,) = (path for path in BUILT.rglob(test.target) if path.is_file())
    command = (str(program), f"--gtest_filter={test.test}")
    if isinstance(test, OnHost):
        return run(command, {}, SECONDS_OF_A_TEST)
    variables = {"EMULATED_GPU_SCHEDULE": test.schedule, "GPU_TEST_STEPS": "2000"}
    return run((str(BUILT / "emulated_gpu" / "run"), *command), variables, SECONDS_OF_A_TEST)


def ran_some(test: Test, output: str) -> bool:
    if isinstance(test, EndToEnd):
        return re.search(r"^\d+ passed", output, re.MULTILINE) is not None
    passed = re.search(r"^\[  PASSED  \] (\d+) test", output, re.MULTILINE)
    return passed is not None and int(passed[1]) > 0 and "[  SKIPPED ]" not in output


@cache
def check_passes(test: Test) -> None:
    """Of a test that fails anyway, or runs nothing, a failure tells nothing."""
    build(targets_of(test))
    ended = start(test)
    if ended.status != 0 or not ran_some(test, ended.output):
        raise Broken(f"without the fault {test} does not pass:\n{ended.output[-4000:]}")


def is_found(mutation: Mutation) -> bool:
    check_passes(mutation.test)
    file = COPY / mutation.file
    right = file.read_text()
    if right.count(mutation.text) != 1:
        raise Broken(f"its text is not once in {mutation.file}")
    try:
        file.write_text(right.replace(mutation.text, mutation.replacement))
        build(targets_of(mutation.test))
        return start(mutation.test).status != 0
    finally:
        file.write_text(right)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, usage="run.py [NAME ...]")
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    unknown = set(names) - {mutation.name for mutation in MUTATIONS}
    if unknown:
        parser.error("no fault of this name: " + ", ".join(sorted(unknown)))
    COPY.mkdir(parents=True, exist_ok=True)
    copy_sources()
    link_packages()
    chosen = [mutation for mutation in MUTATIONS if not names or mutation.name in names]
    failed = []
    for mutation in chosen:
        begin = time.monotonic()
        try:
            verdict = "found" if is_found(mutation) else "SURVIVED"
        except Broken as error:
            verdict = f"BROKEN: {error}"
        if verdict != "found":
            failed.append(mutation.name)
        print(f"{mutation.name:36} {time.monotonic() - begin:4.0f} s  {verdict}", flush=True)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} faults were found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
