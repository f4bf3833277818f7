"""Programs forked from an interpreter that has imported torch: two seconds less of each process."""

import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

MAIN = 'exec(__import__("warm_child").program({requests}))'
# What a program may set and find as in an interpreter of its own; all else is read too early.
_READ_LATE = ("EBBTIDE", "PYTEST_", "TEST", "TMPDIR")
_READ_LATE += ("RANK", "LOCAL_", "GROUP_", "ROLE_", "NODE_RANK", "WORLD_SIZE", "MASTER_")
_READ_LATE += ("TORCHELASTIC_", "TORCH_NCCL_", "SLURM_", "OMPI_", "PMI_")
_EXECUTE = inspect.signature(subprocess.Popen._execute_child)


def heed_interrupts() -> None:
    """What a shell runs in the background ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _read_early(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_READ_LATE)}


class Interpreter:
    """Started when it is first needed; it ends with the last process that can ask it."""

    def __init__(self) -> None:
        self._environment = {**_read_early(dict(os.environ)), "OMP_NUM_THREADS": "1"}
        self._lock = threading.Lock()
        self.requests: socket.socket | None = None

    def takes(self, command: list[str], environment: dict[str, str]) -> bool:
        """A script, `-c` or `-m` of this Python, in an environment that torch reads alike."""
        words = [word for word in command[1:3] if word != "-u"]
        is_ours = command[0] == sys.executable and len(words) > 0
        is_program = is_ours and (words[0] in ("-c", "-m") or not words[0].startswith("-"))
        return is_program and _read_early(environment) == self._environment

    def fork(self, request: dict, files: list[int]) -> socket.socket:
        """`files`: stdin, stdout, stderr. The answers: a pid and, when it has ended, its status."""
        with self._lock:
            if self.requests is None:
                self.requests = self._start()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            passed = [*files, theirs.fileno(), self.requests.fileno()]
            socket.send_fds(self.requests, [json.dumps(request).encode()], passed)
        return ours

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        with theirs:
            subprocess.Popen(
                [sys.executable, "-c", MAIN.format(requests=theirs.fileno())],
                cwd=Path(__file__).parent,
                env={**self._environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # no terminal: its children's output has blocks
                pass_fds=[theirs.fileno()],
            )
        return ours


# TEST_STARTS=cold, as ./dev test --all has it: each program imports torch by itself.
interpreter = None if os.environ.get("TEST_STARTS") == "cold" else Interpreter()


class Popen(subprocess.Popen):
    """As its base, but a Python program that can be is forked from `interpreter`.

    Its parent is then that interpreter. So are a launcher's: the programs that it starts.
    """

    _answers: socket.socket | None = None

    def _execute_child(self, *arguments, **named) -> None:
        asked = _EXECUTE.bind(self, *arguments, **named).arguments
        command, environment = asked["args"], asked["env"]
        command = [command] if isinstance(command, (str, bytes)) else list(map(str, command))
        environment = dict(os.environ if environment is None else environment)
        plain = asked["preexec_fn"] in (None, heed_interrupts)
        plain = plain and not (asked["shell"] or asked["executable"] or asked["pass_fds"])
        if not plain or interpreter is None or not interpreter.takes(command, environment):
            super()._execute_child(*arguments, **named)
            return
        files = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        request = {
            "command": command,
            "environment": environment,
            "folder": str(asked["cwd"] or os.getcwd()),
            "session": asked["start_new_session"],
        }
        self._answers = interpreter.fork(
            request, [own if file == -1 else file for own, file in enumerate(files)]
        )
        self.pid = json.loads(self._answers.recv(64))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))

    def _internal_poll(self, _deadstate=None, **known) -> int | None:
        if self._answers is None:
            return super()._internal_poll(_deadstate, **known)
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._answers is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._answers], [], [], 0)[0]:
            return 0, 0
        with self._answers:
            return self.pid, json.loads(self._answers.recv(64))
