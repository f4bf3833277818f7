"""Programs forked from an interpreter that has imported torch: two seconds less of each process."""

import contextlib
import inspect
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).parent
MAIN = 'exec(__import__("warm_child").program({listening}, {starter}))'
# What a program may set and find as in an interpreter of its own; all else is read too early.
_READ_LATE = ("EBBTIDE", "PYTEST_", "TEST", "TMPDIR", "TORCH_DEVICE_BACKEND_AUTOLOAD")
_READ_LATE += ("HOME", "PATH", "PYTHONPATH", "XDG_", "LC_", "EMULATED_GPU_", "GPU_TEST_")
_READ_LATE += ("RANK", "LOCAL_", "GROUP_", "ROLE_", "NODE_RANK", "WORLD_SIZE", "MASTER_")
_READ_LATE += ("TORCHELASTIC_", "TORCH_NCCL_", "SLURM_", "OMPI_", "PMI_", "PET_")
_READ_EARLY = ("EMULATED_GPU_MODE", "EMULATED_GPU_DEVICES")  # of another machine
_OF_SHELLS = ("_", "PWD", "OLDPWD", "SHLVL")
_EXECUTE = inspect.signature(subprocess.Popen._execute_child)
_OF_ITS_OWN = ("gid", "gids", "uid", "umask", "process_group")  # what a fork would not have
START_SECONDS = 600  # hung: torch is imported in three

# Isolated and without site-packages: it starts in a twentieth of a second.
STAND_IN = """#!{python} -IS
import sys
sys.path.insert(0, {here!r})
import warm_interpreter
warm_interpreter.stand_in({folder!r}, {environment!r})
"""


def heed_interrupts() -> None:
    """What a shell runs in the background ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _read_early(environment: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in _READ_EARLY or not (name in _OF_SHELLS or name.startswith(_READ_LATE))
    }


class Interpreter:
    """Started when it is first needed; it ends with the last process that can ask it.

    `under`: a command that starts it, whose variables its programs have. `folder`: where one
    listens that is there, in place of a new one.
    """

    def __init__(
        self,
        environment: dict[str, str] | None = None,
        under: tuple[str, ...] = (),
        folder: str = "",
    ) -> None:
        given = dict(os.environ) if environment is None else environment
        self._environment = {**_read_early(given), "OMP_NUM_THREADS": "1"}
        self._places = {name: given[name] for name in ("HOME", "PATH") if name in given}
        self._under = under
        self._lock = threading.Lock()
        self._folder = folder
        self._starter: socket.socket | None = None  # it is told by its end that this process ended
        self._process: subprocess.Popen | None = None

    def takes(self, command: list[str], environment: dict[str, str]) -> bool:
        """A script, `-c` or `-m` of this Python, in an environment that torch reads alike."""
        words = [word for word in command[1:3] if word != "-u"]
        is_ours = command[0] == sys.executable and len(words) > 0
        is_program = is_ours and (words[0] in ("-c", "-m") or not words[0].startswith("-"))
        return is_program and _read_early(environment) == self._environment

    def fork(self, request: dict, files: list[int]) -> socket.socket:
        """`files`: stdin, stdout, stderr. The answers: a pid and, when it has ended, its status."""
        answers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        answers.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        answers.settimeout(START_SECONDS)  # until it has told the pid
        answers.connect(f"{self.folder()}/asked")
        socket.send_fds(answers, [json.dumps(request).encode()], files)
        return answers

    def stand_in(self) -> str:
        """A file that is started as this Python is, by others than Popen: its program is forked."""
        return f"{self.folder()}/python"

    def folder(self) -> str:
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                print(f"the warm interpreter ended: {self._process.returncode}", file=sys.stderr)
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder, self._process = "", None
            self._folder = self._folder or self._start()
        return self._folder

    def _start(self) -> str:
        folder = tempfile.mkdtemp(prefix="ebb-", dir="/tmp")  # a socket's name may have 107 bytes
        python = Path(folder, "python")
        python.write_text(
            STAND_IN.format(
                python=sys.executable,
                here=str(HERE),
                folder=folder,
                environment=self._environment,
            )
        )
        python.chmod(0o700)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._starter, theirs = socket.socketpair()
        with listening, theirs:
            listening.bind(f"{folder}/asked")
            listening.listen(64)
            files = (listening.fileno(), theirs.fileno())
            main = MAIN.format(listening=files[0], starter=files[1])
            self._process = subprocess.Popen(
                [*self._under, sys.executable, "-c", main],
                cwd=HERE,
                env={**self._environment, **self._places, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # no terminal: its children's output has blocks
                pass_fds=files,
            )
        return folder


# TEST_STARTS=cold, as ./dev test --all has it: each program imports torch by itself.
COLD = os.environ.get("TEST_STARTS") == "cold"
interpreter = None if COLD else Interpreter()


def python() -> str:
    """This Python, for a command that a tested program starts."""
    return sys.executable if interpreter is None else interpreter.stand_in()


def stand_in(folder: str, environment: dict[str, str]) -> None:
    """The whole of a stand-in: it lives, ends and is ended as the program that is forked for it."""
    command = [sys.executable, *sys.argv[1:]]
    asked = Interpreter(environment, folder=folder)
    if not asked.takes(command, dict(os.environ)):
        os.execv(command[0], command)
    passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    request = {
        "command": command,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "session": os.getsid(0) == os.getpid(),
        "ends_with_asker": True,
    }
    answers = asked.fork(request, [0, 1, 2])
    pid = json.loads(answers.recv(64))
    answers.settimeout(None)

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    for each in passed_on:
        signal.signal(each, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    code = os.waitstatus_to_exitcode(json.loads(answers.recv(64)))
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # of SIGKILL there is no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


class Popen(subprocess.Popen):
    """As its base, but a Python program that can be is forked from `interpreter`.

    Its parent is then that interpreter. So are a launcher's: the programs that it starts.
    """

    _answers: socket.socket | None = None

    @staticmethod
    def forked_from() -> Interpreter | None:
        return interpreter

    def _execute_child(self, *arguments, **named) -> None:
        asked = _EXECUTE.bind(self, *arguments, **named).arguments
        command, environment = asked["args"], asked["env"]
        command = [command] if isinstance(command, (str, bytes)) else list(map(str, command))
        environment = dict(os.environ if environment is None else environment)
        plain = asked["preexec_fn"] in (None, heed_interrupts)
        plain = plain and not (asked["shell"] or asked["executable"] or asked["pass_fds"])
        plain = plain and asked["close_fds"]
        plain = plain and all(asked.get(name) in (None, -1) for name in _OF_ITS_OWN)
        warm = self.forked_from()
        if not plain or warm is None or not warm.takes(command, environment):
            super()._execute_child(*arguments, **named)
            return
        files = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        request = {
            "command": command,
            "environment": environment,
            "folder": os.path.abspath(os.fsdecode(asked["cwd"] or ".")),  # its own is another
            "session": asked["start_new_session"],
        }
        self._answers = warm.fork(
            request, [own if file == -1 else file for own, file in enumerate(files)]
        )
        self.pid = json.loads(self._answers.recv(64))
        self._answers.settimeout(None)
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
        with contextlib.ExitStack() as ended:
            events = select.poll()  # select() knows 1,024 files
            events.register(self._answers, select.POLLIN)
            if wait_flags & os.WNOHANG and not events.poll(0):
                return 0, 0
            status = ended.enter_context(self._answers).recv(64)
        if status:
            return self.pid, json.loads(status)
        print(f"the interpreter that {self.args} was forked from has ended", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.pid, signal.SIGKILL
