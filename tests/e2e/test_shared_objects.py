"""What one checkout compiles with a precompiled header, ccache finds for another one.

cmake/compile_afresh.sh sees to it. A checkout has main.cpp and first.hpp, which is precompiled,
with a macro and a function that knows its file's name.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import ROOT

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed"),
]

FILES = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(shared CXX)
add_executable(main main.cpp)
target_precompile_headers(main PRIVATE first.hpp)
""",
    "first.hpp": """#include <cstdio>
#define ANSWER 1
inline const char* file() { return __FILE__; }
""",
    "main.cpp": 'int main() { std::printf("%d %d\\n", ANSWER, file()[0] != 0); }\n',
}


class Checkouts:
    """Share one cache of objects. `programs`: a folder with commands that are taken first."""

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        self.folder = folder
        self.path = os.environ["PATH"] if programs is None else f"{programs}:{os.environ['PATH']}"

    def environment(self, checkout: Path) -> dict[str, str]:
        line = next(
            line for line in (ROOT / "dev").read_text().splitlines() if "CCACHE_SLOPPINESS=" in line
        )
        return os.environ | {
            "PATH": self.path,
            "CCACHE_DIR": str(self.folder / "cache"),
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_PCH_EXTSUM": "1",
            "CCACHE_BASEDIR": str(checkout),
            "CCACHE_SLOPPINESS": line.partition("CCACHE_SLOPPINESS=")[2],
        }

    def program_of(self, name: str, changes: dict[str, str]) -> str:
        """What it prints, compiled afresh."""
        checkout = self.folder / name
        shutil.rmtree(checkout, ignore_errors=True)
        checkout.mkdir()
        for file, text in (FILES | changes).items():
            (checkout / file).write_text(text)
        environment = self.environment(checkout)
        launcher = f"{ROOT / 'cmake' / 'compile_afresh.sh'};ccache"
        for command in (
            ("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"),
            ("cmake", "--build", "build"),
        ):
            done = subprocess.run(
                command, cwd=checkout, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
        return subprocess.run(
            (checkout / "build" / "main",), capture_output=True, text=True, check=True
        ).stdout

    def hits(self) -> int:
        stats = subprocess.run(
            ("ccache", "--print-stats"),
            env=self.environment(self.folder),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        counts = dict(line.split("\t") for line in stats.splitlines())
        return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])


# Names that mean something to what the launcher calls.
@pytest.mark.parametrize("second", ["second", "a]x[.*b&"])
def test_another_checkout_finds_what_the_first_compiled(tmp_path: Path, second: str) -> None:
    checkouts = Checkouts(tmp_path)
    assert checkouts.program_of("first", {}) == "1 1\n"
    before = checkouts.hits()
    assert checkouts.program_of(second, {}) == "1 1\n"
    # main.cpp; the header itself may be found or not.
    assert checkouts.hits() - before >= 1


@pytest.mark.parametrize("failing", ["sed", "sha256sum", "mv"])
def test_without_a_checksum_no_wrong_object_is_found(tmp_path: Path, failing: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / failing).write_text("#!/bin/sh\nexit 1\n")
    (programs / failing).chmod(0o755)
    checkouts = Checkouts(tmp_path, programs)
    assert checkouts.program_of("first", {}) == "1 1\n"
    assert not list((tmp_path / "first").rglob("*.sum"))
    changed = FILES["first.hpp"].replace("ANSWER 1", "ANSWER 2")
    assert checkouts.program_of("first", {"first.hpp": changed}) == "2 1\n"


def test_a_macro_that_only_the_source_reads_is_seen_to_change(tmp_path: Path) -> None:
    checkouts = Checkouts(tmp_path)
    assert checkouts.program_of("first", {}) == "1 1\n"
    changed = FILES["first.hpp"].replace("ANSWER 1", "ANSWER 2")
    assert checkouts.program_of("first", {"first.hpp": changed}) == "2 1\n"
    assert checkouts.program_of("second", {"first.hpp": changed}) == "2 1\n"
    assert checkouts.program_of("first", {}) == "1 1\n"
