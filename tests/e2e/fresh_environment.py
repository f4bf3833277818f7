"""Environments from nothing, with the torch that runs the tests: what pip and uv install into."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import ROOT, TIMEOUT_SECONDS, environment, tiny


def succeeded(
    command: tuple[str, ...], folder: Path, seconds: int, variables: dict[str, str] | None = None
) -> str:
    """What it printed."""
    # By the name of the compiler that ./dev takes, whose objects ccache then has.
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")} | {"CXX": "c++"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env | (variables or {}),
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def required_by(wanted: Requirement, found: set[str]) -> Iterator[metadata.Distribution]:
    """The distribution and all that it requires here, but what is found already."""
    name = canonicalize_name(wanted.name)
    if name in found:
        return
    found.add(name)
    distribution = metadata.distribution(name)
    yield distribution
    for text in distribution.requires or []:
        requirement, extras = Requirement(text), wanted.extras or {""}
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            yield from required_by(requirement, found)


@dataclass(frozen=True)
class Environment:
    """Has torch, what torch requires, and numpy, with which programs of the tests hash."""

    folder: Path

    @staticmethod
    def make(folder: Path, *options: str) -> "Environment":
        """Options are those of venv."""
        succeeded((sys.executable, "-m", "venv", *options, "."), folder, TIMEOUT_SECONDS)
        made = Environment(folder)
        made.link("torch")
        made.link("numpy")
        return made

    @property
    def site(self) -> Path:
        (site,) = self.folder.glob("lib/python3*/site-packages")
        return site

    @property
    def package(self) -> Path:
        return self.site / "ebbtide"

    @property
    def _constraints(self) -> Path:
        return self.folder / "constraints.txt"

    def link(self, name: str) -> None:
        """The package as it is installed for the tests, and what it requires."""
        installed = metadata.distributions(path=[str(self.site)])
        there = {canonicalize_name(distribution.name) for distribution in installed}
        with self._constraints.open("a") as constraints:
            for distribution in required_by(Requirement(name), there):
                constraints.write(f"{distribution.name}=={distribution.version}\n")
                tops = {file.parts[0] for file in distribution.files or []}
                for top in tops - {"..", "__pycache__"}:
                    source, here = Path(str(distribution.locate_file(top))), self.site / top
                    if top.endswith(".dist-info"):
                        shutil.copytree(source, here)  # uv sees no links
                    elif not here.exists():  # a folder may be of several distributions
                        here.symlink_to(source)

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
            timeout=TIMEOUT_SECONDS,
        )
        assert status in (None, done.returncode), done.stdout
        return done.stdout

    def typed(self, command: str, variables: dict[str, str] | None = None) -> str:
        """What it prints in the checkout, in a shell in which this environment is activated."""
        activated = {
            "VIRTUAL_ENV": str(self.folder),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}:{Path(sys.executable).parent}",
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
            # Else a wrong wheel might bring another torch, through our links in place of ours.
            "PIP_CONSTRAINT": str(self._constraints),
            "UV_CONSTRAINT": str(self._constraints),
        }
        return succeeded(tuple(command.split()), ROOT, 1800, activated | (variables or {}))


def required_backend() -> str:
    text = (ROOT / "pyproject.toml").read_text()
    (requirement,) = re.findall(r'^requires = \["(.*)"\]$', text, re.MULTILINE)
    return requirement


@functools.cache
def _refused_by_the_index() -> str:
    once = ("--no-deps", "--retries", "1", "--timeout", "15")
    with tempfile.TemporaryDirectory() as folder:
        pip = (sys.executable, "-m", "pip", "download", *once, "--dest", folder, required_backend())
        done = subprocess.run(pip, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def need_index() -> None:
    """An isolated build takes scikit-build-core from the index that ./dev setup uses."""
    refused = _refused_by_the_index()
    if re.search(r"\(from versions: none\)", refused):
        pytest.skip("pip reaches no package index here: no isolated build")
    assert not refused, refused


def need_package(name: str) -> None:
    """Of those that ./dev test --all installs."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
