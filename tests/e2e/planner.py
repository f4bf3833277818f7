"""For training programs of the tests: waits for the plugin's planner instead of sleeping."""

import time
from pathlib import Path


def settle() -> None:
    """Returns when the planning threads have nothing to do; at once in stock torch."""
    begin = ran = time.monotonic()
    while True:
        for stat in _stats_of("ebbtide-plan"):
            _wait_until_idle(stat)
        polishing, now = _stats_of("ebbtide-polish"), time.monotonic()
        if any(_state(stat) != "S" for stat in polishing):
            ran = now
        if not polishing or now - ran > _REST or now - begin > _Patience.left:
            break
        time.sleep(0.002)
    _Patience.left -= now - begin


# Seconds: then the search for a better plan waits until the process has used more of the processor.
_REST = 0.1


class _Patience:
    """Seconds for the search for better plans: at the lowest priority it may run little."""

    left = 60.0


def _stats_of(name: str) -> list[Path]:
    stats = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text() == name + "\n":
                stats.append(task / "stat")
        except (FileNotFoundError, ProcessLookupError):
            pass  # another thread, ended meanwhile
    return stats


def _wait_until_idle(stat: Path) -> None:
    times_idle = 0
    while times_idle < 3:  # it may sleep for a moment on a lock
        times_idle = times_idle + 1 if _state(stat) in ("S", "") else 0
        time.sleep(0.002)


def _state(stat: Path) -> str:
    """Of a thread; empty: it has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
