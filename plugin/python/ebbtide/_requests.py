"""Asks the plugin of this process, in the words of its HTTP interface (docs/control.md)."""

import ctypes
import json
import os
from typing import Any

_NOT_ACTIVE = (
    "Ebbtide is not active in this process: start it with EBBTIDE=1 or EBBTIDE_BUDGET=<size> in "
    "the environment, before torch is imported"
)

# Of the running library, set where the plugin was started: it holds no lock of Python's meanwhile.
_library: ctypes.CDLL | None = None
_why_none = _NOT_ACTIVE


class BudgetError(RuntimeError):
    """No plan can keep that budget. ``smallest_feasible_bytes`` is one that would do, if known."""

    def __init__(self, message: str, smallest_feasible_bytes: int | None = None) -> None:
        super().__init__(message)
        self.smallest_feasible_bytes = smallest_feasible_bytes


def connect(library: ctypes.CDLL) -> None:
    global _library
    library.ebbtide_request.restype = ctypes.c_void_p
    library.ebbtide_request.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int),
    ]
    library.ebbtide_inert.restype = ctypes.c_bool
    library.ebbtide_free.restype = None
    library.ebbtide_free.argtypes = [ctypes.c_void_p]
    if _library is None:
        os.register_at_fork(after_in_child=_disconnect)
    _library = library


def _disconnect() -> None:
    """A child whose parent had not begun to train is managed as its parent is."""
    global _library, _why_none
    if _library is None or not _library.ebbtide_inert():
        return
    _library, _why_none = None, "Ebbtide is not active in a forked child"


def is_active() -> bool:
    return _library is not None


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """What the plugin answers. Raises ValueError for what it cannot read, else RuntimeError."""
    if _library is None:
        raise RuntimeError(_why_none)
    status = ctypes.c_int(0)
    text = "" if body is None else json.dumps(body)
    answer = _library.ebbtide_request(
        method.encode(), path.encode(), text.encode(), ctypes.byref(status)
    )
    if not answer:
        raise MemoryError("no memory for Ebbtide's answer")
    try:
        told = json.loads(ctypes.string_at(answer))
    finally:
        _library.ebbtide_free(answer)
    if status.value < 400:
        return told
    message = told.get("error", f"Ebbtide answered {status.value}")
    if "code" in told:
        message += f" [{told['code']}]"
    if status.value == 400:
        raise ValueError(message)
    if "smallest_feasible_budget_bytes" in told:
        raise BudgetError(message, told["smallest_feasible_budget_bytes"])
    raise RuntimeError(message)
