"""How a process ends in the midst of its program: for `ebbtide prove` and `ebbtide fit`."""

import atexit
import ctypes
import multiprocessing.util
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

# For exit functions that wait for what the rest of the program would have ended: a child process,
# a thread.
_SECONDS = 5.0


def _leave_anyway() -> None:
    # Where an exit function ends the run already, it waits until that one has written the report.
    with suppress(AttributeError):  # the plugin's is not reached by then
        ctypes.CDLL(None).ebbtide_torch_finish()
    os._exit(0)


def leave(forked: bool) -> NoReturn:
    """As an interpreter ends, but at once: no more of the program runs.

    A forked child has its parent's exit functions, which are not its own to run.
    """
    try:
        late = threading.Timer(_SECONDS, _leave_anyway)
        late.daemon = True
        late.start()
        multiprocessing.util._exit_function() if forked else atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):  # closed
                stream.flush()
        ctypes.CDLL(None).fflush(None)
    finally:
        os._exit(0)


def leave_with(library: ctypes.CDLL) -> None:
    """The plugin ends this process so, and a child that it forks."""
    global _callback
    own = os.getpid()
    _callback = ctypes.CFUNCTYPE(None)(lambda: leave(forked=os.getpid() != own))
    library.ebbtide_leave_by(_callback)


_callback = None  # lives as long as the library may call it
