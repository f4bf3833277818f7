"""Entry point of torch's backend autoload: runs at the end of ``import torch``, in every process.

That includes data loader workers and torchrun's agent, so: nothing happens unless the environment
asks for it, and no error of ours may break ``import torch``. A configuration that cannot be what
the user meant ends the process with status 2 before any work is lost.
"""

import atexit
import ctypes
import itertools
import multiprocessing.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import ebbtide
from ebbtide import _requests

# Modules and programs that start ranks but are none: the variables are meant for their children.
_LAUNCHER_MODULES = {
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
}
_LAUNCHER_PROGRAMS = {"torchrun", "accelerate", "deepspeed"}
_PROOF = "EBBTIDE_PROOF"
_FIT = "EBBTIDE_FIT"


def load() -> None:
    try:
        problem = _arm_proof(os.environ.get(_PROOF)) or _start_if_asked()
    except Exception as error:
        code = "" if re.search(r"\[EB\d\d\]$", str(error)) else " [EB70]"
        _say(f"not started, training goes on without it: {error}{code}")
        return
    if problem:
        _say(problem)
        raise SystemExit(2)


def _arm_proof(text: str | None) -> str | None:
    """For `ebbtide prove`, in plain runs too. Returns the user's mistake in one sentence."""
    if not text:
        return None
    from ebbtide import _proof  # costs an import, and few want it

    try:
        _proof.arm(text)
    except ValueError as error:
        return f"{error} [EB67]"
    return None


def _start_if_asked() -> str | None:
    """Nothing of ours is loaded where no variable asks for it. Returns as _start()."""
    if not any(name.startswith("EBBTIDE") and name != _PROOF for name in os.environ):
        return None
    library = _open(Path(__file__).parent)
    if not library.ebbtide_asked_for() or _is_launcher(os.environ, sys.orig_argv, sys.argv):
        return None
    return _start(library, sys.modules["torch"].__version__)


def _is_launcher(
    environment: Mapping[str, str], original: Sequence[str], arguments: Sequence[str]
) -> bool:
    """True in a launcher's own process; the ranks that it starts have LOCAL_RANK."""
    if "LOCAL_RANK" in environment:
        return False
    if arguments and os.path.basename(arguments[0]) in _LAUNCHER_PROGRAMS:
        return True
    modules = {after for option, after in itertools.pairwise(original) if option == "-m"}
    return bool(modules & _LAUNCHER_MODULES)


def _open(folder: Path) -> ctypes.CDLL:
    """The front, free of torch: safe before the versions are compared."""
    path = folder / "libebbtide.so"
    if not path.exists():
        raise RuntimeError("libebbtide.so is missing beside the package; install ebbtide again")
    library = ctypes.CDLL(str(path))
    library.ebbtide_asked_for.restype = ctypes.c_bool
    library.ebbtide_built_for.restype = ctypes.c_char_p
    library.ebbtide_start.restype = ctypes.c_char_p
    return library


def _start(library: ctypes.CDLL, torch_version: str) -> str | None:
    """Starts the plugin. Returns the user's mistake in one sentence; raises for everything else."""
    built_for = library.ebbtide_built_for().decode()
    running = ".".join(torch_version.split(".")[:2])
    if running != built_for:
        raise RuntimeError(
            f"built for torch {built_for}, but this process has torch {torch_version}: "
            f"install the ebbtide of torch {running} [EB68]"
        )
    problem = library.ebbtide_start()
    if not problem:
        atexit.register(library.ebbtide_finish)
        # Forked workers of multiprocessing leave by os._exit(), after its own finalizers alone.
        multiprocessing.util.register_after_fork(library, _finish_in_worker)
        loaded = ctypes.CDLL(None)  # the running copy's hints, if there are two
        ebbtide._hint, ebbtide._stage_hint = loaded.ebbtide_step, loaded.ebbtide_stage
        ebbtide._hint.restype = ebbtide._stage_hint.restype = None
        _requests.connect(loaded)
        if os.environ.get(_FIT):
            from ebbtide import _leaving  # costs an import, and few want it

            _leaving.leave_with(loaded)
        with suppress(Exception):  # without it checkpoints are left to torch
            from ebbtide import _checkpoints  # imports torch's, which is there by now

            _checkpoints.tell(loaded)
    return problem.decode(errors="replace") if problem else None


def _finish_in_worker(library: ctypes.CDLL) -> None:
    multiprocessing.util.Finalize(None, library.ebbtide_finish, exitpriority=-100)


def _say(message: str) -> None:
    if sys.stderr is not None:
        print(f"ebbtide: {message}", file=sys.stderr, flush=True)
