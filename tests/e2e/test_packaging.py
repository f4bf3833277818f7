"""The wheel, from nothing: built, installed beside torch alone, and a training with it."""

import json
import platform
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from conftest import Baseline
from fresh_environment import Environment, need_index, need_package, succeeded
from processes import ROOT, TIMEOUT_SECONDS, environment, tiny

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
SYSTEM_NEEDS = ("platform", "glibc", "libstdc++")  # rows of a table in docs/install.md


def binaries(folder: Path) -> list[Path]:
    """Libraries and programs."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                found += [path] if file.read(4) == ELF else []
    return found


def newest_needed(of: list[Path]) -> dict[str, str]:
    """By the family of symbols, as GLIBC, the newest version that one of the files asks for."""
    told = "".join(
        subprocess.run(
            ("readelf", "--version-info", "--wide", str(path)),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for path in of
    )
    newest: dict[str, tuple[int, ...]] = {}
    for family, version in re.findall(r"Name: (\w+?)_([\d.]+)  Flags:", told):
        numbers = tuple(map(int, version.split(".")))
        newest[family] = max(newest.get(family, ()), numbers)
    return {family: ".".join(map(str, numbers)) for family, numbers in newest.items()}


def documented_needs(column: int) -> dict[str, str]:
    """A column of the table of docs/install.md: 1 is the wheel, 2 torch."""
    text = (ROOT / "docs/install.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    found = {row[0].partition(" ")[0]: row[column] for row in rows if len(row) == 3}
    return {name: found[name].partition(",")[0].strip("`") for name in SYSTEM_NEEDS}


def of_debian_12() -> bool:
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return False
    return (system["ID"], system.get("VERSION_ID")) == ("debian", "12")


def trains_in(place: Environment, baseline: Baseline, budget: str, folder: Path) -> None:
    program = tiny()
    out = folder / "result.json"
    ours = environment(program, {"EBBTIDE_BUDGET": budget}, folder)
    said = place.run("python", *program.command[1:], "--out", str(out), variables=ours)
    # The line at the end: all 12 steps of tiny() kept the budget.
    assert re.search(r"ended after 12 steps.* of the budget's .*, never over it", said), said
    result = json.loads(out.read_text())
    result.pop("step_seconds", None)
    assert result == baseline.plain.results[0]


def names_and_metadata(wheel: Path) -> tuple[set[str], str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        return names, archive.read(described).decode()


def torch_of_the_last_build() -> Path:
    """Not resolved: the torch of a fresh environment is a link."""
    cache = (ROOT / "build/pip/CMakeCache.txt").read_text()
    (folder,) = re.findall(r"^EBBTIDE_TORCH_ROOT:\w+=(.*)$", cache, re.MULTILINE)
    return Path(folder)


# Over 20 s: pip compiles plugin and program, from ccache at best; 1,800 s are for an empty one.
@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index")
    succeeded((*pip, "--wheel-dir", str(folder), "."), ROOT, 1800)
    (built,) = folder.glob("ebbtide-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment.make(tmp_path_factory.mktemp("environment"), "--without-pip")
    # Dependencies included: the torch that is there is the one that the wheel wants.
    pip = (sys.executable, "-m", "pip", "--python", str(made.folder / "bin" / "python"), "install")
    succeeded((*pip, "--no-index", str(wheel)), made.folder, TIMEOUT_SECONDS)
    return made


@pytest.fixture(scope="module")
def with_pip(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """As `python -m venv` makes it. One, as what includes torch is compiled for its folder."""
    return Environment.make(tmp_path_factory.mktemp("fresh"))


@pytest.fixture
def fresh(with_pip: Environment) -> Iterator[Environment]:
    need_index()
    assert not with_pip.package.exists()
    yield with_pip
    with_pip.typed("pip uninstall --yes ebbtide")


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


def test_it_needs_nothing_of_the_system_but_what_torch_needs(installed: Environment) -> None:
    programs = binaries(installed.package)
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


def test_the_program_and_its_pages_are_installed(installed: Environment) -> None:
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


def test_its_doctor_looks_at_the_environment_that_it_is_in(installed: Environment) -> None:
    # Ports and folders of this machine may be problems: the status is not looked at.
    told = json.loads(installed.run("ebbtide", "doctor", "--json", status=None))
    found = {finding["name"]: finding for finding in told["findings"]}
    assert f"{installed.folder}/bin/python" in found["Python"]["what"]
    assert found["plugin"]["verdict"] == "ok"
    assert str(installed.package) in found["plugin"]["what"]


def test_it_trains_beside_torch_alone(
    installed: Environment, tiny_baseline: Baseline, tiny_budget: str, tmp_path: Path
) -> None:
    trains_in(installed, tiny_baseline, tiny_budget, tmp_path)


# The minute is that of a machine which does nothing else. It took 35.5 s at a load of 8.
@pytest.mark.nightly
def test_a_minute_after_its_installation_a_run_has_told_its_budgets(
    wheel: Path, with_pip: Environment, tmp_path: Path
) -> None:
    train = ("python", str(ROOT / "examples/train_gpt.py"), *"--layers 4 --steps 4".split())
    measures = environment(tiny(), {"EBBTIDE": "1"}, tmp_path)
    start = time.monotonic()
    try:
        with_pip.typed(f"pip install --no-index {wheel}")
        installed_after = time.monotonic() - start
        said = with_pip.run(*train, variables=measures)
        seconds = time.monotonic() - start
    finally:
        with_pip.typed("pip uninstall --yes ebbtide")
    print(f"{seconds:.1f} s, {installed_after:.1f} s of it the installation")
    line = r"ended after 4 steps of .*: peak .*, activations .*: EBBTIDE_BUDGET=\d+MiB"
    assert re.search(line, said), said
    assert seconds <= 60


def test_what_it_needs_of_a_system_is_documented(installed: Environment) -> None:
    if not of_debian_12():
        pytest.skip("the figures are of a wheel from Debian 12")
    needs, documented = newest_needed(binaries(installed.package)), documented_needs(1)
    assert documented["glibc"] == needs["GLIBC"]
    assert documented["libstdc++"] == f"GLIBCXX_{needs['GLIBCXX']}"
    limits = (ROOT / "docs/limits.md").read_text()
    assert f"from Debian 12 needs glibc {needs['GLIBC']} and " in limits


def test_what_torch_needs_of_a_system_is_documented(built_for: str) -> None:
    text = (ROOT / "docs/install.md").read_text()
    if f"| torch {built_for} itself |" not in text:
        pytest.skip(f"the figures are of another torch than {built_for}")
    torch = metadata.distribution("torch")
    needs = newest_needed(binaries(Path(str(torch.locate_file("torch")))))
    documented = documented_needs(2)
    assert documented["glibc"] == needs["GLIBC"]
    assert documented["libstdc++"] == f"GLIBCXX_{needs['GLIBCXX']}"
    assert f"-{documented['platform']}_" in str(torch.read_text("WHEEL"))


@pytest.mark.nightly
def test_auditwheel_names_the_documented_platform(wheel: Path) -> None:
    if not of_debian_12():
        pytest.skip("the figures are of a wheel from Debian 12")
    need_package("auditwheel")
    show = (sys.executable, "-m", "auditwheel", "show", str(wheel))
    told = succeeded(show, ROOT, TIMEOUT_SECONDS)
    (platform_tag,) = re.findall(r'constrains the platform tag to "(\w+)"', " ".join(told.split()))
    assert platform_tag == f"{documented_needs(1)['platform']}_{platform.machine()}"


# Over 20 s: what includes torch is compiled once more, for the torch of this environment.
@pytest.mark.nightly
@pytest.mark.parametrize("command", ["pip install .", "uv pip install ."])
def test_a_checkout_is_installed_into_a_fresh_environment(
    command: str, fresh: Environment, tiny_baseline: Baseline, tiny_budget: str, tmp_path: Path
) -> None:
    if command.startswith("uv "):
        need_package("uv")
    fresh.typed(command)
    assert torch_of_the_last_build() == fresh.site / "torch"
    trains_in(fresh, tiny_baseline, tiny_budget, tmp_path)


# Over 20 s, as above.
@pytest.mark.nightly
def test_build_makes_the_wheel_that_pip_makes(
    fresh: Environment, wheel: Path, tmp_path: Path
) -> None:
    need_package("build")
    fresh.link("build")
    fresh.typed(f"python -m build --wheel --outdir {tmp_path}")  # else dist/ of the checkout
    assert torch_of_the_last_build() == fresh.site / "torch"
    (built,) = tmp_path.iterdir()
    assert built.name == wheel.name
    assert names_and_metadata(built) == names_and_metadata(wheel)


# Over 20 s: everything is compiled in the folder of the archive, from ccache what knows no torch.
@pytest.mark.nightly
def test_a_source_archive_has_what_a_wheel_is_made_of(
    fresh: Environment, wheel: Path, tmp_path: Path
) -> None:
    need_package("build")
    fresh.link("build")
    unpacked = {"TMPDIR": str(tmp_path), "CCACHE_BASEDIR": str(tmp_path)}
    fresh.typed(f"python -m build --outdir {tmp_path / 'dist'}", unpacked)
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    (built,) = (tmp_path / "dist").glob("*.whl")
    assert re.fullmatch(r"ebbtide-\d+\.\d+\.\d+\.tar\.gz", archive.name)  # for every torch
    assert built.name == wheel.name
    assert names_and_metadata(built) == names_and_metadata(wheel)
