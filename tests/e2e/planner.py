"""For training programs of the tests: waits for the plugin's planner instead of sleeping."""

import time
from pathlib import Path


def settle() -> None:
    """Returns when the planning thread has nothing to do; at once in stock torch."""
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text() == "ebbtide-plan\n":
                _wait_until_idle(task / "stat")
        except (FileNotFoundError, ProcessLookupError):
            pass  # another thread, ended meanwhile


def _wait_until_idle(stat: Path) -> None:
    times_idle = 0
    while times_idle < 3:  # it may sleep for a moment on a lock
        state = stat.read_text().rpartition(")")[2].split()[0]
        times_idle = times_idle + 1 if state == "S" else 0
        time.sleep(0.002)
