"""Which ranks a rank waits for that has made its last update, under `ebbtide prove`."""

from pathlib import Path

from processes import code, run


def test_a_rank_that_nobody_waited_for_is_not_late(tmp_path: Path) -> None:
    """It crashed before its last update, and is a zombie: none has ended, none is late."""
    text = (
        "import os, pathlib, subprocess\n"
        "from ebbtide._proof import _processes\n"
        "folder = pathlib.Path('logs')\n"
        "folder.mkdir()\n"
        "crashed = subprocess.Popen(['false'])\n"
        "os.waitid(os.P_PID, crashed.pid, os.WEXITED | os.WNOWAIT)\n"
        "(folder / f'{crashed.pid}.jsonl').write_text('{}\\n{\"update\": 1}\\n')\n"
        "assert pathlib.Path('/proc', str(crashed.pid)).exists()\n"
        "assert _processes(folder) == (0, 0), _processes(folder)\n"
    )
    run(code(text), {}, tmp_path, out=False).succeeded()
