"""In the process that warm_interpreter.py starts: imports torch once, then forks for each request.

A child goes on as the program and ends as any interpreter does.
"""

import contextlib
import ctypes
import gc
import importlib.abc
import importlib.machinery
import io
import json
import multiprocessing.process
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types

import torch
import torch._dynamo  # as an optimizer's first step does, in a second
import warm_interpreter

# What the emulated GPU's `run` sets.
OF_DEVICE = ("LD_PRELOAD", "LD_LIBRARY_PATH", "EMULATED_GPU_OPERATORS")
# Who tests ends, and this process then. A child finds those that came before it was the program.
KEPT_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _TorchAtImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`import torch` gives the module that is there, and loads the plugin as torch's end would.

    So does an import of a part of it: parts are there again once the whole is.
    """

    def __init__(self) -> None:
        self._spec = torch.__spec__
        self._loader = torch.__loader__
        names = [name for name in sys.modules if name.partition(".")[0] == "torch"]
        self._modules = {name: sys.modules.pop(name) for name in names}
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return torch

    def exec_module(self, module):
        module.__spec__, module.__loader__ = self._spec, self._loader
        sys.modules.update(self._modules)
        if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
            module._import_device_backends()


def _next_request(listening: socket.socket, starter: socket.socket) -> tuple[dict, list[int]]:
    """In the child of a request, with its files. The process itself ends when nobody can ask: who
    started it has ended, and so has each of its children."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: pid, and who is told its status
    events = selectors.DefaultSelector()
    events.register(listening, selectors.EVENT_READ)
    events.register(starter, selectors.EVENT_READ)
    started = True
    while started or running:
        for key, _ in events.select():
            if key.fileobj is starter:  # nothing is ever sent
                events.unregister(starter)
                started = False
                for pid, _ in running.values():  # nobody is left to end them
                    os.kill(pid, signal.SIGKILL)
            elif key.fileobj is listening:
                answers, _ = listening.accept()
                text, files, _, _ = socket.recv_fds(answers, 1 << 20, 3)
                if not text:
                    answers.close()
                    continue
                request = json.loads(text)
                pid = os.fork()
                if pid == 0:
                    events.close()
                    for file, (_, asker) in running.items():
                        os.close(file)
                        asker.close()
                    for own in (listening, starter, answers):
                        own.close()
                    return request, files
                for file in files:
                    os.close(file)
                with contextlib.suppress(ConnectionError):  # who asked may have ended
                    answers.send(json.dumps(pid).encode())
                ended = os.pidfd_open(pid)
                running[ended] = (pid, answers)
                events.register(ended, selectors.EVENT_READ)
                if request.get("ends_with_asker"):
                    killed = (pid, -pid) if request["session"] else (pid,)
                    events.register(answers, selectors.EVENT_READ, killed)
            elif key.data is not None:
                with contextlib.suppress(KeyError, ValueError):  # it has just ended by itself
                    events.unregister(key.fileobj)
                    for each in key.data:
                        with contextlib.suppress(ProcessLookupError):  # no session yet
                            os.kill(each, signal.SIGKILL)
            else:
                events.unregister(key.fileobj)
                pid, answers = running.pop(key.fileobj)
                os.close(key.fileobj)
                _, status = os.waitpid(pid, 0)
                with contextlib.suppress(KeyError):
                    events.unregister(answers)
                with answers, contextlib.suppress(ConnectionError):  # it may not have read the pid
                    answers.send(json.dumps(status).encode())
    shutil.rmtree(os.path.dirname(listening.getsockname()), ignore_errors=True)
    os._exit(0)


def _become(request: dict, files: list[int], folder: str) -> tuple[str | bytes, str]:
    """The program's source and its name; this process is then as the program would find it.

    `folder`: where what it starts is asked for.
    """
    warm_interpreter.heed_interrupts()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT_BACK)
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    multiprocessing.process.ORIGINAL_DIR = request["folder"]  # spawned children look there
    of_device = {name: os.environ[name] for name in OF_DEVICE if name in os.environ}
    os.environ.clear()
    os.environ.update(request["environment"] | of_device)
    if "EMULATED_GPU_OPERATORS" in of_device:  # it may have read its variables before
        ctypes.CDLL(None).emulated_gpu_read_settings()
    tempfile.tempdir = None
    # What it starts is forked like itself: a launcher's ranks.
    warm_interpreter.interpreter = warm_interpreter.Interpreter(folder=folder)
    subprocess.Popen = warm_interpreter.Popen
    command = list(request["command"])
    sys.orig_argv[:] = command
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    unbuffered = sys.stdout.write_through  # as PYTHONUNBUFFERED asks
    if command[1] == "-u":
        del command[1]
        unbuffered = True
    if unbuffered:  # but a line at a time: what others write to the same pipe is not in its midst
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), line_buffering=True)
    if command[1] == "-c":
        sys.argv[:] = ["-c", *command[3:]]
        sys.path[0] = ""
        return command[2], "<string>"
    if command[1] == "-m":
        sys.argv[:] = ["-m", *command[3:]]
        sys.path[0] = os.getcwd()
        return f"__import__('runpy')._run_module_as_main({command[2]!r})", "<string>"
    sys.argv[:] = command[1:]
    sys.path[0] = os.path.dirname(os.path.realpath(command[1]))
    with open(command[1], "rb") as file:  # its first lines may name its encoding
        return file.read(), command[1]


def program(listening: int, starter: int) -> types.CodeType:
    """The program that this process has become, a child of the one that was started.

    Sockets of warm_interpreter.py: one that requests come to, one that ends with who started it.
    To be executed as the code of `__main__`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, KEPT_BACK)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"{len(threads)} threads: a fork has one, and the others' locks"
    gc.freeze()  # else a child's end, which looks at all objects of torch, copies them: 0.7 s
    asked = socket.socket(fileno=listening)
    folder = os.path.dirname(asked.getsockname())
    source, name = _become(*_next_request(asked, socket.socket(fileno=starter)), folder)
    _TorchAtImport()
    if name != "<string>":
        sys.modules["__main__"].__file__ = name
    return compile(source, name, "exec")
