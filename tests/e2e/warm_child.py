"""In the process that warm_interpreter.py starts: imports torch once, then forks for each request.

A child goes on as the program and ends as any interpreter does.
"""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import io
import json
import multiprocessing.process
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import types

import torch
import torch._dynamo  # as an optimizer's first step does, in a second
import warm_interpreter


class _TorchAtImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`import torch` gives the module that is there, and loads the plugin as torch's end would."""

    def __init__(self) -> None:
        self._spec = torch.__spec__
        self._loader = torch.__loader__
        del sys.modules["torch"]
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
        if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
            module._import_device_backends()


def _next_request(requests: socket.socket) -> tuple[dict, list[int]]:
    """In the child of a request, with its files. The process itself ends when nobody can ask."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: pid, and who is told its status
    events = selectors.DefaultSelector()
    events.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj is not requests:
                events.unregister(key.fileobj)
                pid, answers = running.pop(key.fileobj)
                os.close(key.fileobj)
                _, status = os.waitpid(pid, 0)
                with answers, contextlib.suppress(BrokenPipeError):  # who asked may have ended
                    answers.send(json.dumps(status).encode())
                continue
            text, files, _, _ = socket.recv_fds(requests, 1 << 20, 5)
            if not text:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                events.close()
                for file, (_, answers) in running.items():
                    os.close(file)
                    answers.close()
                requests.close()
                os.close(files[3])
                return json.loads(text), [*files[:3], files[4]]
            for file in (*files[:3], files[4]):
                os.close(file)
            answers = socket.socket(fileno=files[3])
            with contextlib.suppress(BrokenPipeError):
                answers.send(json.dumps(pid).encode())
            ended = os.pidfd_open(pid)
            running[ended] = (pid, answers)
            events.register(ended, selectors.EVENT_READ)


def _become(request: dict, files: list[int]) -> tuple[str, str]:
    """The program's source and its name; this process is then as the program would find it."""
    warm_interpreter.heed_interrupts()
    for own, file in enumerate(files[:3]):
        os.dup2(file, own)
        os.close(file)
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    multiprocessing.process.ORIGINAL_DIR = request["folder"]  # spawned children look there
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    # What it starts is forked like itself: a launcher's ranks.
    warm_interpreter.interpreter = warm_interpreter.Interpreter()
    warm_interpreter.interpreter.requests = socket.socket(fileno=files[3])
    subprocess.Popen = warm_interpreter.Popen
    command = list(request["command"])
    sys.orig_argv[:] = command
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
    with open(command[1]) as file:
        return file.read(), command[1]


def program(requests: int) -> types.CodeType:
    """The program that this process has become, a child of the one that was started.

    `requests` is the socket of warm_interpreter.py. To be executed as the code of `__main__`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who tests ends, and this process then
    gc.freeze()  # else a child's end, which looks at all objects of torch, copies them: 0.7 s
    source, name = _become(*_next_request(socket.socket(fileno=requests)))
    _TorchAtImport()
    if name != "<string>":
        sys.modules["__main__"].__file__ = name
    return compile(source, name, "exec")
