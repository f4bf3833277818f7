"""What others do to the interpreter that programs are forked from ends no program but their own."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from processes import TIMEOUT_SECONDS
from warm_interpreter import Interpreter, Popen

SLEEPS = "import time; time.sleep(1000)"


class _Own(Popen):
    started_by = Interpreter()

    @classmethod
    def forked_from(cls) -> Interpreter:
        return cls.started_by


def asked(text: str, session: bool = False) -> socket.socket:
    """As by a stand-in: what is asked for ends with who asks."""
    request = {"command": [sys.executable, "-c", text], "environment": dict(os.environ)}
    request |= {"folder": "/", "session": session, "ends_with_asker": True}
    return _Own.started_by.fork(request, [0, 1, 2])


def start(text: str, **options: object) -> subprocess.Popen:
    own = os.environ | {"OMP_NUM_THREADS": "1"}
    return _Own([sys.executable, "-c", text], env=own, stdout=subprocess.PIPE, **options)


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """A program that goes on meanwhile, and one after it."""
    with start("input(); print('went on')", stdin=subprocess.PIPE) as before:
        yield
        assert before.communicate(b"\n", timeout=TIMEOUT_SECONDS)[0] == b"went on\n"
    after = start("print('started')")
    assert after.communicate(timeout=TIMEOUT_SECONDS)[0] == b"started\n"


def test_one_that_asks_is_killed_before_its_session_is_there() -> None:
    asked(SLEEPS, session=True).close()


def test_one_that_asks_is_killed_before_it_knows_the_pid() -> None:
    with asked(SLEEPS) as answers:
        select.select([answers], [], [])


def test_one_that_asks_is_killed_later() -> None:
    with asked(SLEEPS) as answers:
        ended = os.pidfd_open(json.loads(answers.recv(64)))
    assert select.select([ended], [], [], TIMEOUT_SECONDS)[0]
    os.close(ended)


def test_a_signal_at_once_ends_it() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with start(SLEEPS, stderr=subprocess.DEVNULL) as process:
            process.send_signal(number)
            assert process.wait(TIMEOUT_SECONDS) == -number


def test_a_part_of_torch_loads_the_plugin() -> None:
    """As where it is first of all."""
    text = "from torch.optim.optimizer import Optimizer\nimport sys; print('torch' in sys.modules)"
    assert start(text).communicate(timeout=TIMEOUT_SECONDS)[0] == b"True\n"
