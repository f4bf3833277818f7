"""Which torch a wheel is built for, and what its metadata then says. Nothing is compiled."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_environment import need_index, need_package, required_backend
from processes import ROOT, TIMEOUT_SECONDS

BACKEND = ROOT / "plugin" / "wheel"
FIND = "from environment_torch import find_torch; print(find_torch().folder)"
METADATA = (
    "import sys, wheel_backend as backend;"
    "print(backend.prepare_metadata_for_build_wheel(sys.argv[1], {sys.argv[2]: sys.argv[3]}))"
)


def environment_in(folder: Path) -> Path:
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", str(folder)), check=True)
    return folder


def torch_in(environment: Path, version: str = "2.15.1+cpu") -> Path:
    """As much of a torch as a build, pip and uv look at first."""
    (site,) = environment.glob("lib/python3*/site-packages")
    (site / "torch/include/ATen").mkdir(parents=True)
    (site / "torch/include/ATen/ATen.h").touch()
    (site / "torch/__init__.py").touch()
    (site / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    information = site / f"torch-{version}.dist-info"
    information.mkdir()
    described = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
    (information / "METADATA").write_text(described)
    return site / "torch"


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an isolated build: its environment has no torch."""
    return str(environment_in(tmp_path_factory.mktemp("isolated")) / "bin/python")


def run_under(
    frontend: tuple[str, ...], variables: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(BACKEND), "PATH": "/usr/bin:/bin"} | variables
    return subprocess.run(frontend, env=env, cwd=folder, capture_output=True, text=True)


def shell(isolated: str, *words: str) -> tuple[str, ...]:
    """A frontend that is no Python, as uv; the colon keeps the shell from becoming the build."""
    return ("/bin/sh", "-c", f'"{isolated}" -c "$FIND"; :', *words)


@pytest.mark.parametrize("how", ["frontend", "named", "activated", "folder", "path"])
def test_an_isolated_build_finds_the_torch_of_the_environment(
    how: str, isolated: str, tmp_path: Path
) -> None:
    environment = environment_in(tmp_path / ".venv")
    torch = torch_in(environment)
    inside = tmp_path / "inside"
    inside.mkdir()
    elsewhere = Path(isolated).parent
    call = "import os, subprocess, sys; subprocess.run([sys.argv[1], '-c', os.environ['FIND']])"
    frontend, variables, folder = {
        "frontend": ((str(environment / "bin/python"), "-c", call, isolated), {}, elsewhere),
        "named": (shell(isolated, "uv", "--python", str(environment)), {}, elsewhere),
        "activated": (shell(isolated), {"VIRTUAL_ENV": str(environment)}, elsewhere),
        "folder": (shell(isolated), {}, inside),
        "path": (shell(isolated), {"PATH": f"{environment}/bin:/usr/bin:/bin"}, elsewhere),
    }[how]
    found = run_under(frontend, {"FIND": FIND} | variables, folder)
    assert Path(found.stdout.strip()).resolve() == torch.resolve(), found.stderr


def test_the_frontends_environment_goes_before_the_activated_one(
    isolated: str, tmp_path: Path
) -> None:
    used, other = environment_in(tmp_path / "used"), environment_in(tmp_path / "other")
    torch = torch_in(used)
    torch_in(other)
    found = run_under(
        shell(isolated, "uv", f"--python={used}/bin/python"),
        {"FIND": FIND, "VIRTUAL_ENV": str(other)},
        tmp_path,
    )
    assert Path(found.stdout.strip()).resolve() == torch.resolve(), found.stderr


def said_in_the_checkout(command: tuple[str, ...], variables: dict[str, str]) -> str:
    """Beside its .venv, which has another torch than the environments here."""
    kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=kept | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_pip_would_install_what_is_for_the_environments_torch(tmp_path: Path) -> None:
    need_index()
    environment = environment_in(tmp_path / "env")
    torch_in(environment, "2.14.1+cpu")
    pip = (sys.executable, "-m", "pip", "--python", str(environment / "bin/python"))
    said = said_in_the_checkout((*pip, "install", "--dry-run", "."), {})
    assert re.search(r"^Would install ebbtide-\d+\.\d+\.\d+\+torch2\.14$", said, re.M), said


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["activated", "named"])
def test_uv_would_install_what_is_for_the_environments_torch(how: str, tmp_path: Path) -> None:
    need_index()
    need_package("uv")
    environment = environment_in(tmp_path / "env")
    torch_in(environment, "2.14.1+cpu")
    uv = (str(Path(sys.executable).parent / "uv"), "pip", "install", "--dry-run")
    named = ("--python", str(environment)) if how == "named" else ()
    activated = {"VIRTUAL_ENV": str(environment)} if how == "activated" else {}
    cache = {"UV_CACHE_DIR": str(tmp_path / "cache")}
    said = said_in_the_checkout((*uv, *named, "."), cache | activated)
    # Of a wheel for another torch it would install that, too.
    assert re.findall(r"^ [-+~] (\S+)", said, re.M) == ["ebbtide"], said


def metadata_for(torch: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    named = ("cmake.define.EBBTIDE_TORCH_ROOT", str(torch))
    return subprocess.run(
        (sys.executable, "-c", METADATA, str(folder), *named),
        env=os.environ | {"PYTHONPATH": str(BACKEND)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_a_torch_that_is_named_is_the_one_of_the_metadata(tmp_path: Path) -> None:
    done = metadata_for(torch_in(environment_in(tmp_path / "env")), tmp_path)
    assert done.returncode == 0, done.stderr
    (information,) = tmp_path.glob("ebbtide-*.dist-info")
    assert information.name.endswith("+torch2.15.dist-info")
    assert "Requires-Dist: torch==2.15.*\n" in (information / "METADATA").read_text()


def test_a_torch_that_is_too_old_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = metadata_for(torch_in(environment_in(tmp_path / "env"), "2.10.0"), tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("ebbtide: torch 2.10 in "), done.stderr
    assert done.stderr.endswith("is too old: pip install 'torch>=2.11'\n")


def test_no_torch_is_said_in_a_sentence(isolated: str, tmp_path: Path) -> None:
    find = "import wheel_backend as backend; backend._for_torch(None)"
    done = run_under(shell(isolated), {"FIND": find, "PATH": ""}, tmp_path)
    assert done.stderr.startswith("ebbtide: no torch was found"), done.stderr
    assert done.stderr.endswith("-C cmake.define.EBBTIDE_TORCH_ROOT=FOLDER\n")
    assert done.stderr.count("\n") == 1


def test_a_build_without_isolation_names_what_is_missing(isolated: str, tmp_path: Path) -> None:
    ask = "import wheel_backend as backend; backend.get_requires_for_build_wheel()"
    done = run_under(shell(isolated), {"FIND": ask}, tmp_path)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "--no-build-isolation needs it there: pip install scikit-build-core==" in done.stderr


@pytest.mark.quick
def test_the_documented_packages_are_those_that_setup_installs() -> None:
    (needs,) = re.findall(r"^build_needs=\((.*?)^\)", (ROOT / "dev").read_text(), re.M | re.S)
    installed = set(re.findall(r'^  "(\S+) ', needs, re.M))
    (line,) = re.findall(r"^apt-get install (.*)$", (ROOT / "docs/install.md").read_text(), re.M)
    # A wheel is built without tests, and without ccache as well.
    assert set(line.split()) - {"--no-install-recommends"} == installed - {"ccache", "libgtest-dev"}


@pytest.mark.quick
def test_the_documented_backend_is_the_one_that_is_required() -> None:
    assert f"`{required_backend()}`" in (ROOT / "docs/install.md").read_text()
