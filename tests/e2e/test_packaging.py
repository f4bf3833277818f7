"""The wheel, from nothing: built, installed beside torch alone, and a training with it."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from conftest import Baseline
from processes import ROOT, environment, tiny

ELF = b"\x7fELF"
# Of every Linux, and what torch's own libraries need of it.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"} | {
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libstdc++.so.6",
    "libgcc_s.so.1",
}
# In the process that imported torch they are loaded.
OF_TORCH = {"libtorch_cpu.so", "libc10.so", "libc10_cuda.so", "libcudart.so.12", "libcudart.so.13"}


@dataclass(frozen=True)
class Installed:
    """An environment that has torch, what torch requires, and the wheel."""

    folder: Path
    package: Path

    def run(
        self, *command: str, variables: dict[str, str] | None = None, status: int | None = 0
    ) -> str:
        """Its output, stdout and stderr; asserts the status, unless that is None."""
        done = subprocess.run(
            (str(self.folder / "bin" / command[0]), *command[1:]),
            env=environment(tiny(), {}, self.folder) | (variables or {}),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
        assert status in (None, done.returncode), done.stdout
        return done.stdout


def succeeded(command: tuple[str, ...], folder: Path, seconds: int) -> None:
    # By the name of the compiler that ./dev takes, whose objects ccache then has.
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")} | {"CXX": "c++"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr


def required_by(name: str, found: set[str]) -> Iterator[metadata.Distribution]:
    """The distribution and all that it requires, as far as they are installed here."""
    if name in found:
        return
    found.add(name)
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:  # for another system, or an extra
        return
    yield distribution
    for requirement in distribution.requires or []:
        yield from required_by(re.split(r"[^\w.-]", requirement)[0], found)


def link_torch(folder: Path) -> None:
    folder.mkdir()
    for distribution in required_by("torch", set()):
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))


# Over 20 s: pip compiles plugin and program, from ccache at best; 1,800 s are for an empty one.
@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index")
    succeeded((*pip, "--wheel-dir", str(folder), "."), ROOT, 1800)
    (built,) = folder.glob("ebbtide-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("environment")
    succeeded((sys.executable, "-m", "venv", "--without-pip", "."), folder, 60)
    link_torch(folder / "torch-alone")
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "torch-alone.pth").write_text(f"{folder / 'torch-alone'}\n")
    # Dependencies included: the torch that is there is the one that the wheel wants.
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install")
    succeeded((*pip, "--no-index", str(wheel)), folder, 60)
    return Installed(folder, site / "ebbtide")


def test_the_wheel_holds_the_library_and_serves_every_cpython(wheel: Path) -> None:
    assert "-py3-none-linux" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (n for n in names if n.endswith(".dist-info/entry_points.txt"))
        text = archive.read(entry_points).decode().replace(" ", "")
    assert {
        "ebbtide/__init__.py",
        "ebbtide/_autoload.py",
        "ebbtide/libebbtide.so",
        "ebbtide/libebbtide_torch.so",
        "ebbtide/libnccl-profiler-ebbtide.so",
        "ebbtide/include/ebbtide/step.h",
        "ebbtide/ebbtide",
        "ebbtide/ebbtide-solver",
    } <= names
    # torch calls this at its import.
    assert "[torch.backends]\nebbtide=ebbtide._autoload:load" in text
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == {
        "LICENSE",
        "LIBRARIES.txt",
    }


def test_its_metadata_wants_the_torch_that_it_was_built_for(wheel: Path, built_for: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == [
        f"Requires-Dist: torch=={built_for}.*"
    ]
    assert any(line.endswith(f"+torch{built_for}") for line in lines if "Version:" in line)


def test_it_needs_nothing_of_the_system_but_what_torch_needs(installed: Installed) -> None:
    programs = [path for path in installed.package.rglob("*") if path.is_file()]
    programs = [path for path in programs if path.read_bytes()[:4] == ELF]
    # Both libraries' own names, two programs, and at least one with torch.
    assert len(programs) >= 5
    held = {path.name for path in programs}
    for path in programs:
        told = subprocess.run(
            ("readelf", "--dynamic", "--wide", str(path)),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told))
        assert needed <= SYSTEM | OF_TORCH | held, path
        # What lies in the wheel is found beside the one that needs it, nowhere else.
        paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", told)
        assert paths == ["$ORIGIN"] or not paths and not needed & held, (path, paths)
    assert not [path for path in programs if path.name.startswith("libtorch")]


def test_the_program_and_its_pages_are_installed(installed: Installed) -> None:
    version = installed.run("ebbtide", "--version")
    assert re.fullmatch(r"(ebbtide )?\d+\.\d+\.\d+\n", version)
    assert installed.run("python", "-m", "ebbtide", "--version") == version
    share = installed.folder / "share"
    manual = (share / "man/man1/ebbtide.1").read_text()
    assert manual == installed.run("ebbtide", "man")
    for shell, name in (
        ("bash", "bash-completion/completions/ebbtide"),
        ("zsh", "zsh/site-functions/_ebbtide"),
        ("fish", "fish/vendor_completions.d/ebbtide.fish"),
    ):
        assert (share / name).read_text() == installed.run("ebbtide", "completion", shell)


def test_its_doctor_looks_at_the_environment_that_it_is_in(installed: Installed) -> None:
    # Ports and folders of this machine may be problems: the status is not looked at.
    told = json.loads(installed.run("ebbtide", "doctor", "--json", status=None))
    found = {finding["name"]: finding for finding in told["findings"]}
    assert f"{installed.folder}/bin/python" in found["Python"]["what"]
    assert found["plugin"]["verdict"] == "ok"
    assert str(installed.package) in found["plugin"]["what"]


def test_it_trains_beside_torch_alone(
    installed: Installed, tiny_baseline: Baseline, tiny_budget: str, tmp_path: Path
) -> None:
    program = tiny()
    out = tmp_path / "result.json"
    ours = environment(program, {"EBBTIDE_BUDGET": tiny_budget}, tmp_path)
    said = installed.run("python", *program.command[1:], "--out", str(out), variables=ours)
    # The line at the end: all 12 steps of tiny() kept the budget.
    assert re.search(r"ended after 12 steps.* of the budget's .*, never over it", said), said
    result = json.loads(out.read_text())
    result.pop("step_seconds", None)
    assert result == tiny_baseline.plain.results[0]
