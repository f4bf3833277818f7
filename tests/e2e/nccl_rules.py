"""What the emulated NCCL promises: each rule in two processes, a rank each, without torch.

python nccl_rules.py RULE...
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

RANKS = 2
COUNT = 40_000  # elements: reductions go by blocks of 16,384
SUM, PROD, MAX, MIN, AVG = range(5)
UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = 1, 2, 4, 6, 7, 8, 9
NUMPY = {
    UINT8: np.uint8,
    INT32: np.int32,
    INT64: np.int64,
    FLOAT16: np.float16,
    FLOAT32: np.float32,
    FLOAT64: np.float64,
    BFLOAT16: np.float32,  # rounded to half of its bits
}
IN_PROGRESS_OR_DONE = (0, 7)
INVALID_USAGE, REMOTE_ERROR = 5, 6
LAUNCH_FAILED = 719
PREFERRED = 4  # kind of a copy: by its addresses


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


cuda = ctypes.CDLL("libcudart.so.13")
nccl = ctypes.CDLL("libnccl.so.2")
SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p


def succeed(result: int) -> None:
    assert result == 0, result


def bfloat16(values: np.ndarray) -> np.ndarray:
    """As float32: the nearest, of two the even one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded & 0xFFFF0000).view(np.float32)


class Values:
    """An array on the device."""

    def __init__(self, kind: int, values: np.ndarray) -> None:
        self.kind, self.count = kind, values.size
        data = self.packed(values)
        self.bytes, self.at = data.nbytes, POINTER()
        succeed(cuda.cudaMalloc(ctypes.byref(self.at), SIZE(max(self.bytes, 1))))
        succeed(cuda.cudaMemcpy(self.at, POINTER(data.ctypes.data), SIZE(self.bytes), PREFERRED))

    def packed(self, values: np.ndarray) -> np.ndarray:
        if self.kind == BFLOAT16:
            return (bfloat16(values).view(np.uint32) >> 16).astype(np.uint16)
        return np.ascontiguousarray(values, NUMPY[self.kind])

    def element(self, number: int) -> POINTER:
        return POINTER(self.at.value + number * self.bytes // self.count)

    def read(self) -> np.ndarray:
        stored = np.uint16 if self.kind == BFLOAT16 else NUMPY[self.kind]
        data = np.empty(self.count, stored)
        succeed(cuda.cudaMemcpy(POINTER(data.ctypes.data), self.at, SIZE(self.bytes), PREFERRED))
        if self.kind == BFLOAT16:
            return (data.astype(np.uint32) << 16).view(np.float32)
        return data


class Stream:
    def __init__(self) -> None:
        self.it = POINTER()
        succeed(cuda.cudaStreamCreateWithFlags(ctypes.byref(self.it), 1))

    def wait(self) -> int:
        return cuda.cudaStreamSynchronize(self.it)


class Group:
    """A communicator, and the calls of it that tests make."""

    def __init__(self, rank: int, it: POINTER) -> None:
        self.rank, self.it = rank, it
        count = ctypes.c_int()
        succeed(nccl.ncclCommCount(it, ctypes.byref(count)))
        self.ranks = count.value

    @staticmethod
    def of(rank: int, name: UniqueId) -> "Group":
        it = POINTER()
        succeed(nccl.ncclCommInitRank(ctypes.byref(it), RANKS, name, rank))
        return Group(rank, it)

    def split(self, color: int, key: int) -> "Group | None":
        it = POINTER()
        succeed(nccl.ncclCommSplit(self.it, color, key, ctypes.byref(it), None))
        if not it.value:
            return None
        rank = ctypes.c_int()
        succeed(nccl.ncclCommUserRank(it, ctypes.byref(rank)))
        return Group(rank.value, it)

    def all_reduce(self, values: Values, stream: Stream, by: int = SUM) -> None:
        count = SIZE(values.count)
        arguments = (values.at, values.at, count, values.kind, by, self.it, stream.it)
        succeed(nccl.ncclAllReduce(*arguments))

    def send(self, values: Values, peer: int, stream: Stream) -> int:
        return nccl.ncclSend(values.at, SIZE(values.count), values.kind, peer, self.it, stream.it)

    def receive(self, values: Values, peer: int, stream: Stream) -> int:
        return nccl.ncclRecv(values.at, SIZE(values.count), values.kind, peer, self.it, stream.it)

    def error(self) -> int:
        result = ctypes.c_int()
        succeed(nccl.ncclCommGetAsyncError(self.it, ctypes.byref(result)))
        return result.value


@contextmanager
def grouped() -> Iterator[None]:
    succeed(nccl.ncclGroupStart())
    yield
    succeed(nccl.ncclGroupEnd())


def drawn(kind: int, rank: int, count: int = COUNT) -> np.ndarray:
    random = np.random.default_rng(1000 * kind + rank)
    if np.issubdtype(NUMPY[kind], np.integer):
        return random.integers(0, 100, count).astype(NUMPY[kind])
    values = random.standard_normal(count).astype(NUMPY[kind])
    return bfloat16(values) if kind == BFLOAT16 else values


def rounded(kind: int, values: np.ndarray) -> np.ndarray:
    return bfloat16(values) if kind == BFLOAT16 else values.astype(NUMPY[kind])


def reduced(kind: int, by: int, count: int = COUNT) -> np.ndarray:
    """Rank after rank; the average of fractions is the sum of halves, of integers half the sum."""
    first, second = (drawn(kind, rank, count) for rank in range(RANKS))
    if by == MAX:
        return np.maximum(first, second)
    if by == MIN:
        return np.minimum(first, second)
    if by == PROD:
        return rounded(kind, first * second)
    if by == SUM:
        return rounded(kind, first + second)
    if np.issubdtype(NUMPY[kind], np.integer):
        return (first + second) // NUMPY[kind](2)
    half = NUMPY[kind](0.5)
    return rounded(kind, rounded(kind, first * half) + rounded(kind, second * half))


def same(found: np.ndarray, expected: np.ndarray, what: object = "") -> None:
    assert found.tobytes() == expected.tobytes(), (what, found[:5], expected[:5])


# --- rules: what each rank does


def reductions(group: Group) -> None:
    stream = Stream()
    for kind in NUMPY:
        for by in (SUM, PROD, MAX, MIN, AVG):
            values = Values(kind, drawn(kind, group.rank))
            group.all_reduce(values, stream, by)
            succeed(stream.wait())
            same(values.read(), reduced(kind, by), (kind, by))


def to_one(group: Group) -> None:
    stream = Stream()
    for root in range(RANKS):
        values = Values(FLOAT32, drawn(FLOAT32, group.rank))
        into = Values(FLOAT32, np.zeros(COUNT))
        count = SIZE(COUNT)
        arguments = (values.at, into.at, count, FLOAT32, SUM, root, group.it, stream.it)
        succeed(nccl.ncclReduce(*arguments))
        succeed(stream.wait())
        there = reduced(FLOAT32, SUM) if group.rank == root else np.zeros(COUNT, np.float32)
        same(into.read(), there)


def parts(group: Group) -> None:
    """Of 10 elements a rank: all have all, each has its part of the sum, each has all of a part."""
    stream, rank = Stream(), group.rank
    each = [drawn(FLOAT32, i, 20) for i in range(RANKS)]
    values = Values(FLOAT32, each[rank])
    gathered, scattered = Values(FLOAT32, np.zeros(40)), Values(FLOAT32, np.zeros(10))
    exchanged = Values(FLOAT32, np.zeros(20))
    more = (FLOAT32, group.it, stream.it)
    succeed(nccl.ncclAllGather(values.at, gathered.at, SIZE(20), *more))
    reduction = (FLOAT32, SUM, group.it, stream.it)
    succeed(nccl.ncclReduceScatter(values.at, scattered.at, SIZE(10), *reduction))
    succeed(nccl.ncclAlltoAll(values.at, exchanged.at, SIZE(10), *more))
    succeed(stream.wait())
    own = slice(10 * rank, 10 * rank + 10)
    same(gathered.read(), np.concatenate(each))
    same(scattered.read(), (each[0] + each[1])[own])
    same(exchanged.read(), np.concatenate([one[own] for one in each]))
    # In place: the own part lies where it will be.
    succeed(nccl.ncclAllGather(gathered.element(20 * rank), gathered.at, SIZE(20), *more))
    into = values.element(10 * rank)
    succeed(nccl.ncclReduceScatter(values.at, into, SIZE(10), *reduction))
    succeed(stream.wait())
    same(gathered.read(), np.concatenate(each))
    same(values.read()[own], (each[0] + each[1])[own])


def from_one(group: Group) -> None:
    stream = Stream()
    for root in range(RANKS):
        values = Values(INT64, drawn(INT64, group.rank))
        arguments = (values.at, values.at, SIZE(COUNT), INT64, root, group.it, stream.it)
        succeed(nccl.ncclBroadcast(*arguments))
        succeed(stream.wait())
        same(values.read(), drawn(INT64, root))


def scaled(group: Group) -> None:
    """A rank's values times its own factor: rank 0's by 0.5, which lies on the device, rank 1's by
    3."""
    stream = Stream()
    own = np.full(1, (0.5, 3)[group.rank], np.float32)
    on_device, reduction = Values(FLOAT32, own), ctypes.c_int()
    scalar = on_device.at if group.rank == 0 else POINTER(own.ctypes.data)
    create = nccl.ncclRedOpCreatePreMulSum
    succeed(create(ctypes.byref(reduction), scalar, FLOAT32, group.rank, group.it))
    values = Values(FLOAT32, drawn(FLOAT32, group.rank))
    group.all_reduce(values, stream, reduction.value)
    succeed(nccl.ncclRedOpDestroy(reduction, group.it))
    succeed(stream.wait())
    each = [drawn(FLOAT32, rank) for rank in range(RANKS)]
    same(values.read(), each[0] * np.float32(0.5) + each[1] * np.float32(3))


def messages(group: Group) -> None:
    """Both ways at once, three each, which come in the order of the calls."""
    stream, peer = Stream(), 1 - group.rank
    sent = [Values(INT32, drawn(INT32, group.rank) + i) for i in range(3)]
    received = [Values(INT32, np.zeros(COUNT)) for _ in range(3)]
    with grouped():
        for to, into in zip(sent, received, strict=True):
            succeed(group.send(to, peer, stream))
            succeed(group.receive(into, peer, stream))
    succeed(stream.wait())
    for i, into in enumerate(received):
        same(into.read(), drawn(INT32, peer) + i)


def many_in_a_group(group: Group) -> None:
    """In the order of the calls; nothing is asked for before the group's end."""
    stream = Stream()
    all_values = [Values(FLOAT64, drawn(FLOAT64, group.rank) * i) for i in range(5)]
    with grouped():
        for values in all_values:
            group.all_reduce(values, stream)
        assert cuda.cudaStreamQuery(stream.it) == 0
    succeed(stream.wait())
    for i, values in enumerate(all_values):
        first, second = (drawn(FLOAT64, rank) * i for rank in range(RANKS))
        same(values.read(), first + second)


def streams_in_turn(group: Group) -> None:
    """A communicator's work keeps its order, though no stream waits for another."""
    streams = Stream(), Stream()
    values = Values(INT64, np.full(COUNT, group.rank + 1))
    for i in range(8):  # 3, 6, 12, ...
        group.all_reduce(values, streams[i % 2])
    succeed(cuda.cudaDeviceSynchronize())
    same(values.read(), np.full(COUNT, 3 * 2**7))


def splits(group: Group) -> None:
    """The other way round by key; by colour a group each; of no colour none."""
    stream = Stream()
    turned = group.split(0, -group.rank)
    assert turned is not None and (turned.rank, turned.ranks) == (1 - group.rank, RANKS)
    values = Values(INT32, np.full(8, turned.rank))
    arguments = (values.at, values.at, SIZE(8), INT32, 0, turned.it, stream.it)
    succeed(nccl.ncclBroadcast(*arguments))
    succeed(stream.wait())
    same(values.read(), np.zeros(8, np.int32))
    alone = group.split(group.rank, 0)
    assert alone is not None and (alone.rank, alone.ranks) == (0, 1)
    alone.all_reduce(values, stream)
    succeed(stream.wait())
    none = group.split(-1 if group.rank == 1 else 5, 0)
    assert (none is None) == (group.rank == 1)
    succeed(nccl.ncclCommFinalize(turned.it))
    succeed(nccl.ncclCommDestroy(turned.it))


def replayed(group: Group) -> None:
    """A graph's collective takes part anew in each replay."""
    stream, graph, ready = Stream(), POINTER(), POINTER()
    values = Values(INT64, np.full(COUNT, group.rank + 1))
    succeed(cuda.cudaStreamBeginCapture(stream.it, 0))
    group.all_reduce(values, stream)
    succeed(cuda.cudaStreamEndCapture(stream.it, ctypes.byref(graph)))
    succeed(cuda.cudaGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)))
    for _ in range(4):
        succeed(cuda.cudaGraphLaunch(ready, stream.it))
    succeed(stream.wait())
    same(values.read(), np.full(COUNT, 3 * 2**3))


def waiting_elsewhere(group: Group) -> None:
    """Rank 1 waits for the device, rank 0 for rank 1: a kernel needs nobody who waits for it."""
    stream = Stream()
    values = Values(INT64, np.full(COUNT, group.rank + 1))
    group.all_reduce(values, stream)
    if group.rank == 1:
        succeed(stream.wait())
        os.write(PIPE[1], b"done")
    else:
        assert os.read(PIPE[0], 4) == b"done"
    succeed(stream.wait())
    same(values.read(), np.full(COUNT, 3))


def another_thread(group: Group) -> None:
    """Rank 0 waits for a collective that rank 1 comes to after another one, for which a thread of
    rank 0 asks meanwhile."""
    other = group.split(0, group.rank)
    assert other is not None
    streams = Stream(), Stream()
    values = [Values(INT64, np.full(COUNT, group.rank + 1)) for _ in streams]
    if group.rank == 1:
        other.all_reduce(values[1], streams[1])
        succeed(streams[1].wait())
        group.all_reduce(values[0], streams[0])
        succeed(streams[0].wait())
    else:

        def later() -> None:
            time.sleep(0.2)
            other.all_reduce(values[1], streams[1])

        group.all_reduce(values[0], streams[0])
        thread = threading.Thread(target=later)
        thread.start()
        succeed(streams[0].wait())
        thread.join()
        succeed(streams[1].wait())
    for one in values:
        same(one.read(), np.full(COUNT, 3))


# --- rules of failures; these leave a communicator that is of no more use


def a_rank_that_ends(group: Group) -> None:
    """The others hear of it, and go on once they have aborted."""
    if group.rank == 1:
        os._exit(0)
    stream = Stream()
    values = Values(INT32, np.zeros(8))
    group.all_reduce(values, stream)
    while group.error() in IN_PROGRESS_OR_DONE:
        cuda.cudaStreamQuery(stream.it)
    assert group.error() == REMOTE_ERROR
    succeed(nccl.ncclCommAbort(group.it))
    succeed(stream.wait())


def nobody_comes(group: Group) -> None:
    """Within the time limit; without an abort nothing goes on with what was not received."""
    stream = Stream()
    if group.rank == 0:
        group.all_reduce(Values(INT32, np.zeros(8)), stream)
        assert stream.wait() == LAUNCH_FAILED
        assert group.error() == REMOTE_ERROR
        os.write(PIPE[1], b"done")
        os._exit(0)
    assert os.read(PIPE[0], 4) == b"done"


def another_call(group: Group) -> None:
    stream = Stream()
    group.all_reduce(Values(INT32, np.zeros(8 + group.rank)), stream)
    while group.error() in IN_PROGRESS_OR_DONE:
        cuda.cudaStreamQuery(stream.it)
    assert group.error() == INVALID_USAGE
    succeed(nccl.ncclCommAbort(group.it))


def both_send_first(group: Group) -> None:
    """A send waits for its receiver: without a group neither comes to its receive."""
    stream, peer = Stream(), 1 - group.rank
    succeed(group.send(Values(INT32, np.zeros(8)), peer, stream))
    group.receive(Values(INT32, np.zeros(8)), peer, stream)
    while group.error() in IN_PROGRESS_OR_DONE:
        cuda.cudaStreamQuery(stream.it)
    assert group.error() == REMOTE_ERROR
    succeed(nccl.ncclCommAbort(group.it))


RULES: dict[str, Callable[[Group], None]] = {
    f.__name__: f
    for f in (
        reductions,
        to_one,
        parts,
        from_one,
        scaled,
        messages,
        many_in_a_group,
        streams_in_turn,
        splits,
        replayed,
        waiting_elsewhere,
        another_thread,
        a_rank_that_ends,
        nobody_comes,
        another_call,
        both_send_first,
    )
}
LIMITED = {nobody_comes.__name__, both_send_first.__name__}  # they wait for the time limit
PIPE = os.pipe()

if __name__ == "__main__":
    # In all other rules the awaited rank comes, however late on a busy machine.
    os.environ["EMULATED_GPU_NCCL_SECONDS"] = "1" if LIMITED & set(sys.argv[1:]) else "120"
    name = UniqueId()
    succeed(nccl.ncclGetUniqueId(ctypes.byref(name)))
    child = os.fork()
    group = Group.of(0 if child else 1, name)
    for rule in sys.argv[1:]:
        RULES[rule](group)
        os.write(1, f"rank {group.rank}: {rule}\n".encode())  # whole, beside the other's
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)
