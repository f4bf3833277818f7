"""Finds the torch that a wheel is built for: the environment's. An isolated build does not see it.

Frontends differ. Under `pip install .` this interpreter is the environment's, with another search
path. Under `python -m build` and `uv` it is one of a temporary environment; the frontend is the
parent process, and its command line, variables and folder name the environment.
"""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PRINT_FOLDER = (
    "import importlib.util as u; s = u.find_spec('torch');"
    " print(s.submodule_search_locations[0] if s else '')"
)


class TorchNotFound(Exception):
    """One sentence for the user."""


@dataclass(frozen=True)
class Torch:
    folder: Path  # of the package: has include/ and lib/
    minor: str  # "2.11"


@dataclass(frozen=True)
class Frontend:
    """The process that runs the build: pip, build or uv."""

    words: list[str]
    variables: dict[str, str]
    folder: Path

    @staticmethod
    def of_this_process() -> "Frontend":
        process = Path("/proc") / str(os.getppid())
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
            folder = Path(os.readlink(process / "cwd"))
        except OSError:  # another user's
            return Frontend([], {}, Path.cwd())
        pairs = (os.fsdecode(variable).partition("=") for variable in variables)
        return Frontend(
            [os.fsdecode(word) for word in words if word],
            {name: value for name, _, value in pairs if name},
            folder,
        )


def _python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def _named_python(frontend: Frontend) -> Iterator[Path]:
    """What runs the frontend, and what `uv --python` names: a program or an environment."""
    words = frontend.words
    for before, word in zip([""] + words, words, strict=False):
        if before in ("--python", "-p") or word.startswith("--python="):
            path = frontend.folder / word.removeprefix("--python=")
            yield _python_of(path) if path.is_dir() else path
    if words and Path(words[0]).name.startswith("python") and "/" in words[0]:
        yield frontend.folder / words[0]


def candidate_pythons(frontend: Frontend) -> Iterator[Path]:
    """In the order of uv, which is that of a user: named, activated, of the folder, in PATH."""
    yield Path(sys.executable)
    yield from _named_python(frontend)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment := frontend.variables.get(name):
            yield _python_of(Path(environment))
    for folder in (frontend.folder, *frontend.folder.parents):
        yield _python_of(folder / ".venv")
    for folder in frontend.variables.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder) / "python3"


def _torch_folder_of(python: Path) -> Path | None:
    if not os.access(python, os.X_OK) or python.is_dir():
        return None
    # -E: pip names its own folders in PYTHONPATH.
    asked = subprocess.run(
        [str(python), "-E", "-c", _PRINT_FOLDER], capture_output=True, text=True, check=False
    )
    found = asked.stdout.strip()
    return Path(found) if asked.returncode == 0 and found else None


def _torch_in(folder: Path) -> Torch:
    version = folder / "version.py"
    text = version.read_text() if version.exists() else ""
    minor = re.search(r"__version__ = '(\d+)\.(\d+)", text)
    if minor is None or not (folder / "include" / "ATen" / "ATen.h").exists():
        raise TorchNotFound(
            f"{folder} is not the folder of a torch package: it lacks version.py or include/ATen"
        )
    if (int(minor[1]), int(minor[2])) < (2, 11):
        raise TorchNotFound(
            f"torch {minor[1]}.{minor[2]} in {folder} is too old: pip install 'torch>=2.11'"
        )
    return Torch(folder, f"{minor[1]}.{minor[2]}")


def find_torch(named_folder: str | None = None) -> Torch:
    """Raises TorchNotFound."""
    if named_folder:
        return _torch_in(Path(named_folder))
    # Here where the build is not isolated, PYTHONPATH included.
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.submodule_search_locations:
        return _torch_in(Path(spec.submodule_search_locations[0]))
    asked: list[Path] = []
    for python in candidate_pythons(Frontend.of_this_process()):
        if python in asked:
            continue
        asked.append(python)
        if (folder := _torch_folder_of(python)) is not None:
            return _torch_in(folder)
    raise TorchNotFound(
        "no torch was found, and the wheel is built for the environment's torch."
        " Activate an environment that has torch 2.11 or newer, or name the folder of its package:"
        " -C cmake.define.EBBTIDE_TORCH_ROOT=FOLDER"
    )
