"""Runs a training script as settled.py does, but while the ranks agree on the job's plan one of
them is not as it should be. And the last rank is unlike the others: it has a layer more, and after
each third step trains something else.

in_agreement.py FAULT train.py … --layers N …   FAULT: a name of FAULTS, or none

The keys in the job's store are those of plugin/src/job/job_round.hpp.
"""

import ctypes
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import ebbtide
import ebbtide._autoload
import planner
from processes import LIBRARIES

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAST = RANK == RANKS - 1
LIFE = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
REPORTS = 3  # the step after which a rank with a budget reports
OVER = Path("over")  # the test makes it, once each rank has said the test's line

steps = 0  # that are done
seen_over = False


# --- The job's store ------------------------------------------------------------------------------


def store():  # noqa: ANN201  torch comes later
    from torch import distributed

    return distributed.distributed_c10d._get_process_group_store(distributed.group.WORLD)


def there(key: str) -> bool:
    return store().check([key])


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.002)


def announced() -> bool:
    return there("ebbtide/round")


def in_round(number: int, name: str) -> bool:
    """Has round `number`, or a later one, such a key?"""
    if not announced():
        return False
    job, _, now = store().get("ebbtide/round").decode().partition(" ")
    return int(now) > number or there(f"ebbtide/{job}-{number}/{name}")


def is_over(number: int) -> bool:
    """Has that round, the last one, come to something or to nothing?"""
    if not in_round(number, "verdict"):
        return False
    job = store().get("ebbtide/round").decode().partition(" ")[0]
    planned = store().get(f"ebbtide/{job}-{number}/verdict").startswith(b"plan ")
    return not planned or in_round(number, "outcome")


def die() -> None:
    print(f"rank {RANK} is killed", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


# --- What a rank does otherwise -------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """Each called on the ranks that it is for."""

    at_start: Callable[[], None] | None = None  # before torch is imported
    with_torch: Callable[[], None] | None = None  # and after it
    before_update: Callable[[], None] | None = None  # of each step: before the optimizer's
    after_update: Callable[[], None] | None = None
    ranks: tuple[int, ...] = (1,)


def wait_until_over() -> None:
    """The other ranks wait for its messages meanwhile."""
    if steps == REPORTS + 1:
        wait_for(OVER.exists)


def die_twice_then_be_late() -> None:
    """First rank 0 dies, while rank 1 waits for its word; then rank 1, while rank 0 waits for its
    report. In the third life rank 0 has given up when rank 1 reports."""
    if (LIFE, RANK, steps) == (0, 0, 0):
        threading.Thread(target=die_when_the_other_has_reported, daemon=True).start()
    if (LIFE, RANK, steps) == (1, 1, REPORTS - 1):
        wait_for(announced)
        die()
    if (LIFE, RANK, steps) == (2, 1, REPORTS - 1):
        wait_for(lambda: in_round(1, "verdict"))


def die_when_the_other_has_reported() -> None:
    wait_for(lambda: in_round(1, "report/1"))
    die()


def train_slowly_until_all_agree() -> None:
    """Idle ranks look for another round only where steps go on."""
    global seen_over
    if (LIFE, RANK) != (2, 1) or steps <= REPORTS or seen_over:
        return
    seen_over = is_over(2)  # asked no more then: rank 0, which has the store, may end first
    if not seen_over:
        time.sleep(0.7)


def have_a_layer_more() -> None:
    """The layers are divided evenly by what each rank was told."""
    at = sys.argv.index("--layers") + 1
    sys.argv[at] = str(int(sys.argv[at]) + RANKS)


def start_late() -> None:
    if (LIFE, RANK) == (2, 1):
        time.sleep(2)


def without_plugin() -> None:
    for name in [name for name in os.environ if name.startswith("EBBTIDE")]:
        del os.environ[name]


def be_of_another_version() -> None:
    """The same library, which says another version of itself; and of torch."""
    folder = Path.cwd() / "other"
    folder.mkdir(exist_ok=True)
    own = ebbtide.__version__.rpartition(".")[0].encode()  # as text, and as a number in code
    other = own[:-1] + (b"8" if own.endswith(b"9") else b"9")
    for name in ("libebbtide.so", "libebbtide_torch.so"):
        code = (LIBRARIES / name).read_bytes()
        (folder / name).write_bytes(code.replace(own + b".", other + b"."))
    open_library = ebbtide._autoload._open
    ebbtide._autoload._open = lambda _: open_library(folder)
    ctypes.CDLL(str(LIBRARIES / "libebbtide_other_torch.so"), ctypes.RTLD_GLOBAL)


def use_the_store_of_another_process() -> None:
    from torch import distributed

    port = int(os.environ["STORE_PORT"])
    own = distributed.TCPStore("127.0.0.1", port, timeout=timedelta(minutes=2))
    init = distributed.init_process_group

    distributed.init_process_group = lambda backend: init(
        backend, store=own, rank=RANK, world_size=RANKS
    )


def kill_the_store() -> None:
    """While rank 0 waits for this rank's report. The plugin reports in the next step. Then it tries
    to connect until the store's time-out."""
    if RANK == 1 and steps == REPORTS - 1:
        wait_for(announced)
        store().set_timeout(timedelta(seconds=1))
        os.kill(int(os.environ["STORE_PROCESS"]), signal.SIGKILL)
    wait_until_over()


def stop_the_store() -> None:
    """Nobody asks it for anything from here on but the plugin."""
    if RANK == 1 and steps == REPORTS:
        wait_for(lambda: in_round(1, "report/1") or in_round(1, "verdict"))
        os.kill(int(os.environ["STORE_PROCESS"]), signal.SIGSTOP)


def train_another_model() -> None:
    """One step, without messages."""
    import torch

    generator = torch.Generator().manual_seed(steps)
    weight = torch.randn(64, 64, generator=generator).requires_grad_()
    (weight @ weight).tanh().square().sum().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad


FAULTS = {
    "none": Fault(),
    "over": Fault(before_update=wait_until_over),
    "killed-then-late": Fault(
        at_start=start_late,
        before_update=die_twice_then_be_late,
        after_update=train_slowly_until_all_agree,
        ranks=(0, 1),
    ),
    "without-plugin": Fault(at_start=without_plugin, before_update=wait_until_over),
    "other-version": Fault(at_start=be_of_another_version, before_update=wait_until_over),
    "store-killed": Fault(
        with_torch=use_the_store_of_another_process, before_update=kill_the_store, ranks=(0, 1)
    ),
    "store-stopped": Fault(
        with_torch=use_the_store_of_another_process, before_update=stop_the_store, ranks=(0, 1)
    ),
}


def main() -> None:
    global steps
    fault = FAULTS[sys.argv[1]]
    if RANK not in fault.ranks:
        fault = Fault()
    del sys.argv[:2]
    if LAST:
        have_a_layer_more()
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    if fault.at_start:
        fault.at_start()
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    if fault.with_torch:
        fault.with_torch()

    def before(*_: object) -> None:
        if fault.before_update:
            fault.before_update()

    def after(*_: object) -> None:
        global steps
        steps += 1
        planner.settle()
        if fault.after_update:
            fault.after_update()
        if LAST and steps % 3 == 0:
            train_another_model()

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
