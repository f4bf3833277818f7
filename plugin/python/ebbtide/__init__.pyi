import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict, type_check_only

from matplotlib.axes import Axes

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

__version__: str
_hint: Callable[[], None] | None
_stage_hint: Callable[[int, int], None] | None

@type_check_only
class StepSeconds(TypedDict):
    first: float | None
    last: float | None
    median: float | None

@type_check_only
class Memory(TypedDict):
    budget_bytes: int | None
    allocated_bytes: int
    mapped_bytes: int
    cached_bytes: int
    peak_allocated_bytes: int
    peak_mapped_bytes: int
    predicted_peak_bytes: int | None
    base_bytes: int
    margin_bytes: int
    step_peak_bytes: int

@type_check_only
class Totals(TypedDict):
    recomputed_ops: int
    recompute_seconds: float
    replays_ahead: int
    decoded_values: int
    offloaded_bytes: int
    spilled_bytes: int
    budget_violations: int
    replans: int
    followed_steps: int
    ooms: int
    audited: int
    rejected: int

@type_check_only
class Stats(TypedDict, total=False):
    """What stats() returns; {"mode": "off"} alone without the plugin."""

    mode: Literal["off", "measure", "budget", "paused"]
    state: Literal["starting", "training", "paused", "pass-through", "ended"]
    on_infeasible: Literal["stop", "best-effort"]
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    job_id: str
    host: str
    pid: int
    version: str
    torch_version: str
    device: str
    gpu: dict[str, Any] | None
    stages: list[int]
    steps: int
    last_step_unix_seconds: float | None
    step_seconds: StepSeconds
    memory: Memory
    totals: Totals
    recompute_ratio: float | None
    plan: dict[str, Any] | None
    smallest_feasible_budget_bytes: int | None
    history: dict[str, list[Any]]

@type_check_only
class BudgetChange(TypedDict):
    budget_bytes: int | None
    before_bytes: int | None
    from_step: int
    predicted_peak_bytes: int | None
    overhead_ratio: float | None
    step_seconds: float | None

@type_check_only
class Pause(TypedDict):
    paused: bool
    from_step: int

@type_check_only
class CurvePoint(TypedDict):
    budget_bytes: int
    predicted_peak_bytes: int
    overhead_ratio: float
    step_seconds: float

class BudgetError(RuntimeError):
    smallest_feasible_bytes: int | None
    def __init__(self, message: str, smallest_feasible_bytes: int | None = None) -> None: ...

class Plan:
    data: dict[str, Any]
    def __init__(self, data: dict[str, Any]) -> None: ...
    @property
    def exists(self) -> bool: ...
    @property
    def predicted_peak_bytes(self) -> int | None: ...
    @property
    def overhead_ratio(self) -> float | None: ...
    def plot(self, axes: Iterable[Axes] | None = None) -> tuple[Axes, Axes]: ...

class Curve:
    data: dict[str, Any]
    def __init__(self, data: dict[str, Any]) -> None: ...
    @property
    def state(self) -> Literal["ready", "computing", "none"]: ...
    @property
    def points(self) -> list[CurvePoint]: ...
    def __len__(self) -> int: ...
    def plot(self, ax: Axes | None = None) -> Axes: ...

def step() -> None: ...
def stage(stage: int, microbatch: int) -> None: ...
def is_active() -> bool: ...
def stats() -> Stats: ...
def memory_summary() -> str: ...
def plan() -> Plan: ...
def curve() -> Curve: ...
def set_budget(budget: int | str | None, force: bool = False) -> BudgetChange: ...
def pause(force: bool = False) -> Pause: ...
def resume() -> Pause: ...
def trace(steps: int = 3) -> str: ...
def snapshot(path: str | os.PathLike[str] | None = None) -> str: ...
