"""What `ebbtide prove` compares: checksums of the parameters after each update, a file a process.

Imported only where EBBTIDE_PROOF=FOLDER:N is set, with the plugin and without it. Parameters of a
CPU are read where they lie, since a budget bounds what torch allocates. After N updates the process
ends.

    pre hook ── Optimizer.step ── post hook: seconds since the last one, checksum, a line
"""

import ctypes
import hashlib
import itertools
import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ebbtide._leaving import leave

_MOST_SHOWN = 200  # characters of what a variable says
_CHUNK = 1 << 22  # elements that are copied from a device at a time
_PATIENCE_SECONDS = 10  # for other ranks to make their last update
_LATE_SECONDS = 60  # for ranks that still make updates: a busy machine may hold them up


def arm(text: str) -> None:
    """Raises ValueError with a sentence for the user."""
    folder, _, number = text.rpartition(":")
    updates = _number(number)
    if not os.path.isdir(folder) or not updates:
        raise ValueError(
            f"EBBTIDE_PROOF={_shown(text)}: write FOLDER:N, a folder that exists and updates"
        )
    Path(folder, "loaded").touch()  # tells a program without an optimizer from one without us
    _Proof(Path(folder), updates)


def _shown(text: str) -> str:
    """As scheduler::shownText() (shown_text.hpp)."""
    short = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    letters = (x if x.isprintable() else x.encode("unicode_escape").decode() for x in short)
    return "".join(letters)


def _number(text: str) -> int | None:
    """None: not decimal digits alone, or too many. str.isdigit() takes '²', and int() does not."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


class _Proof:
    """Of a process. A child that it forks begins a file of its own."""

    def __init__(self, folder: Path, updates: int) -> None:
        self._folder = folder
        self._updates = updates
        self._forked = False
        self._begin()
        register_optimizer_step_pre_hook(lambda optimizer, *_: self._nested.enter(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, *_: self._stepped(optimizer))
        os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin(self) -> None:
        self._lock = threading.Lock()  # programs may train in several threads
        self._nested = _NestedSteps()
        self._made = 0
        self._file: IO[str] | None = None
        self._last: float | None = None

    def _begin_in_child(self) -> None:
        self._forked = True
        self._begin()

    def _stepped(self, optimizer: Optimizer) -> None:
        _wait_for_devices(optimizer)
        now = time.perf_counter()
        if self._nested.leave(optimizer):
            return
        with self._lock:
            self._made += 1
            self._write(self._line(optimizer, now))
            if self._made == self._updates:
                self._end()
            self._last = time.perf_counter()

    def _line(self, optimizer: Optimizer, now: float) -> dict:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        checksum, skipped = _checksum(parameters)
        seconds = None if self._last is None else now - self._last
        line: dict = {"update": self._made, "seconds": seconds, "checksum": checksum}
        return line | ({"skipped": skipped} if skipped else {})

    def _write(self, line: dict) -> None:
        if self._file is None:
            self._file = open(self._folder / f"{os.getpid()}.jsonl", "w", encoding="utf-8")
            self._write({"rank": _rank(), "began": time.monotonic()})
        print(json.dumps(line), file=self._file, flush=True)

    def _end(self) -> NoReturn:
        self._write({"end": self._updates})
        self._wait_for_other_ranks()
        leave(self._forked)

    def _wait_for_other_ranks(self) -> None:
        """A rank that ends may break a collective in which others still are."""
        begin = time.monotonic()
        while (found := _processes(self._folder)).ended < _local_ranks():
            most = _LATE_SECONDS if found.late else _PATIENCE_SECONDS
            if time.monotonic() - begin >= most:
                return
            time.sleep(0.02)


class _Processes(NamedTuple):
    ended: int  # after their last update
    late: int  # alive, before their last update


def _processes(folder: Path) -> _Processes:
    ended = late = 0
    for file in folder.glob("*.jsonl"):
        if '\n{"end"' in file.read_text():
            ended += 1
        elif _lives(file.stem):
            late += 1
    return _Processes(ended, late)


def _lives(process: str) -> bool:
    """False, too, for one that has ended and that its parent has not waited for."""
    try:
        stat = Path("/proc", process, "stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")  # after the name, proc(5)


class _NestedSteps(threading.local):
    """An optimizer that steps others (ZeroRedundancyOptimizer) makes one update with them."""

    def __init__(self) -> None:
        self._running: list[int] = []

    def enter(self, optimizer: Optimizer) -> None:
        self._cut(optimizer)  # its last step raised, if it is there
        self._running.append(id(optimizer))

    def leave(self, optimizer: Optimizer) -> bool:
        """Is it within the step of another one?"""
        self._cut(optimizer)
        return bool(self._running)

    def _cut(self, optimizer: Optimizer) -> None:
        if id(optimizer) in self._running:
            del self._running[self._running.index(id(optimizer)) :]


def _wait_for_devices(optimizer: Optimizer) -> None:
    """Else the checksum waits for the step, and its seconds are not counted."""
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    if any(p.device.type not in ("cpu", "meta") for p in parameters):
        torch.accelerator.synchronize()


def _rank() -> int | None:
    told = _number(os.environ.get("RANK", ""))
    if told is not None:
        return told
    group = _group()
    return group.get_rank() if group else None


def _local_ranks() -> int:
    told = _number(os.environ.get("LOCAL_WORLD_SIZE", ""))
    if told is not None:
        return told
    group = _group()
    return group.get_world_size() if group else 1


def _group():
    """torch.distributed, where it has a default group."""
    module = sys.modules.get("torch.distributed")
    return module if module and module.is_available() and module.is_initialized() else None


# --- checksums ------------------------------------------------------------------------------------


def _checksum(parameters: Iterable[torch.Tensor]) -> tuple[str | None, dict[str, int]]:
    """Of all that have bytes to read, and how many have none, by type. None: no one has."""
    total = hashlib.blake2b(digest_size=16)
    skipped: Counter[str] = Counter()
    read = 0
    for parameter in parameters:
        try:
            total.update(_digest(parameter))
            read += 1
        except Exception:  # whatever it is, the training goes on
            skipped[_name(parameter)] += 1
    return (total.hexdigest() if read else None), dict(skipped)


def _name(tensor: torch.Tensor) -> str:
    sparse = isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided
    return str(tensor.layout) if sparse else type(tensor).__name__


def _digest(tensor: torch.Tensor) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(tensor):
        digest.update(f"{part.dtype} {tuple(part.shape)} {part.stride()} ".encode())
        for address, size, _ in _memory(part):
            digest.update((ctypes.c_char * size).from_address(address))
    return digest.digest()


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Tensors with memory: of a DTensor its local one, of a quantized one data and scales."""
    kind = type(tensor)
    if hasattr(kind, "__tensor_flatten__"):
        members = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        parts = [member for member in members if isinstance(member, torch.Tensor)]
        if not parts:  # since torch 2.15 a DTensor's mesh is a member, too
            raise TypeError(f"{kind.__name__} has no tensors")
        for part in parts:
            yield from _parts(part)
        return
    own = kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    if not own or tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise TypeError(f"{kind.__name__} has no memory of its own")
    yield tensor


def _memory(tensor: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Address and bytes of each stretch of a tensor, on the host, and what keeps it there."""
    item = tensor.element_size()
    if tensor.numel() == 0:
        return
    for offset, length in _stretches(tensor.shape, tensor.stride()):
        if tensor.device.type == "cpu":
            yield tensor.data_ptr() + offset * item, length * item, tensor
            continue
        for at in range(0, length, _CHUNK):
            copy = _host_copy(tensor, offset + at, min(_CHUNK, length - at))
            yield copy.data_ptr(), copy.numel() * item, copy


def _host_copy(tensor: torch.Tensor, offset: int, length: int) -> torch.Tensor:
    with torch.no_grad():
        first = tensor.storage_offset() + offset
        return tensor.detach().as_strided((length,), (1,), first).cpu()


def _stretches(sizes: Iterable[int], strides: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Offset and length, in elements, of the stretches without gaps; all is one in most tensors."""
    pairs = zip(strides, sizes, strict=True)
    axes = sorted((stride, size) for stride, size in pairs if size > 1 and stride > 0)
    length = 1
    while axes and axes[0][0] == length:
        length *= axes.pop(0)[1]
    for place in itertools.product(*(range(0, stride * size, stride) for stride, size in axes)):
        yield sum(place), length
