"""Ebbtide trains an unmodified PyTorch script within a byte budget, bit for bit as without it.

There is nothing that has to be called. Install the package, then set the environment of the
training command:

    EBBTIDE_BUDGET=30GiB torchrun train.py

PyTorch loads the plugin at the end of ``import torch``. Without ``EBBTIDE_BUDGET`` and
``EBBTIDE=1`` it does nothing. This module does not import torch.

``ebbtide.step()``, once an iteration after the update, is for loops in which no step is seen;
``ebbtide.stage()`` for pipelines that name no microbatches.

To see and to tune from within: ``stats()``, ``memory_summary()``, ``plan()``, ``curve()``,
``set_budget()``, ``pause()``, ``resume()``, ``trace()``, ``snapshot()`` (docs/tracing.md). They may
be called from any thread and at any moment; what they change holds from the next step on.
"""

import os
from collections.abc import Callable
from typing import Any

from ebbtide import _requests
from ebbtide._pictures import Curve, Plan, bytes_text, seconds_text
from ebbtide._requests import BudgetError, is_active

__all__ = [
    "BudgetError",
    "Curve",
    "Plan",
    "curve",
    "is_active",
    "memory_summary",
    "pause",
    "plan",
    "resume",
    "set_budget",
    "snapshot",
    "stage",
    "stats",
    "step",
    "trace",
]

__version__ = "0.1.0"

# Of the library, set where the plugin was started.
_hint: Callable[[], None] | None = None
_stage_hint: Callable[[int, int], None] | None = None


def step() -> None:
    """Says that the calling thread's training step ends here; the next operation begins another.

    Optional: see docs/configuration.md. Changes no number, and does nothing without the plugin.
    """
    if _hint is not None:
        _hint()


def stage(stage: int, microbatch: int) -> None:
    """Says that the calling thread turns to a microbatch of a pipeline stage, both from 0.

    Holds until the next call or the end of the step. Optional, and changes no number, as step().
    """
    if _stage_hint is not None:
        _stage_hint(int(stage), int(microbatch))


def _forced(force: bool) -> dict[str, bool]:
    return {"force": True} if force else {}


def stats() -> dict[str, Any]:
    """What this rank does and holds, as GET /v1/status tells it; {"mode": "off"} without Ebbtide.

    So a script may log it always, as with torch.cuda.memory_stats().
    """
    return _requests.ask("GET", "/v1/status") if is_active() else {"mode": "off"}


def memory_summary() -> str:
    """The same in a few lines, to be printed."""
    now = stats()
    if now["mode"] == "off":
        return "Ebbtide is not active in this process"
    memory, totals = now["memory"], now["totals"]
    rows = [
        ("state", f"{now['state']}, {now['steps']} steps"),
        ("budget", bytes_text(memory["budget_bytes"]) if memory["budget_bytes"] else "none"),
        ("allocated", bytes_text(memory["allocated_bytes"])),
        ("mapped", bytes_text(memory["mapped_bytes"])),
        ("largest mapped", bytes_text(memory["peak_mapped_bytes"])),
        ("predicted peak", bytes_text(memory["predicted_peak_bytes"])),
        ("step", seconds_text(now["step_seconds"]["median"])),
        ("computed again", f"{totals['recomputed_ops']} ops"),
        ("recompute share", f"{100 * (now['recompute_ratio'] or 0):.1f} %"),
        ("offloaded", bytes_text(totals["offloaded_bytes"])),
        ("spilled", bytes_text(totals["spilled_bytes"])),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(
        [f"Ebbtide, rank {now['rank']}", *(f"  {name:<{width}}  {value}" for name, value in rows)]
    )


def plan() -> Plan:
    """The plan in force; a notebook shows it, ``plan().plot()`` draws it with matplotlib."""
    return Plan(_requests.ask("GET", "/v1/plan"))


def curve() -> Curve:
    """What a step would take under other budgets, as far as it has been computed."""
    return Curve(_requests.ask("GET", "/v1/curve"))


def set_budget(budget: int | str | None, force: bool = False) -> dict[str, Any]:
    """Takes another budget, as EBBTIDE_BUDGET has it ("30GiB", "-50%", bytes); None: no budget.

    Holds from the next step on: ``["from_step"]`` of what is returned, which also has what the plan
    predicts. BudgetError: it cannot be kept, and the old one stays. ValueError: it cannot be read.
    RuntimeError: a step could then take more than there is; ``force`` asks for it all the same.
    """
    if isinstance(budget, bool) or not isinstance(budget, int | str | None):
        raise TypeError(
            f"a budget is bytes, a text as '30GiB' or None, not {type(budget).__name__}"
        )
    wanted = "none" if budget is None else budget
    return _requests.ask("POST", "/v1/budget", {"budget": wanted} | _forced(force))


def pause(force: bool = False) -> dict[str, Any]:
    """From the next step on as PyTorch alone: no plan and no budget, until resume().

    RuntimeError: a step could then take more than there is; ``force`` asks for it all the same.
    """
    return _requests.ask("POST", "/v1/pause", {"paused": True} | _forced(force))


def resume() -> dict[str, Any]:
    """The budget again, from the next step on."""
    return _requests.ask("POST", "/v1/pause", {"paused": False})


def trace(steps: int = 3) -> str:
    """Records the next steps for Perfetto. Returns the path of the file that will be there then."""
    return _requests.ask("POST", "/v1/trace", {"steps": steps})["path"]


def snapshot(path: str | os.PathLike[str] | None = None) -> str:
    """Records the next step's blocks for torch's memory viewers (pytorch.org/memory_viz).

    Returns the path of the file that will be there when that step is over.
    """
    body = {} if path is None else {"path": os.fspath(path)}
    return _requests.ask("POST", "/v1/snapshot", body)["path"]
