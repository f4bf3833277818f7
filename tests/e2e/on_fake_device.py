"""Runs a training script on a device that is no CPU to the executor (tests/fake_device).

Writes how the executor called it to FAKE_DEVICE_COUNTS, where that is set.
FAKE_DEVICE_OTHERS=N:BYTES: after N optimizer steps others hold so many bytes of the device (NCCL
makes a communicator, say).
"""

import atexit
import ctypes
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch  # the plugin comes with it
from processes import LIBRARIES
from torch.optim.optimizer import register_optimizer_step_post_hook

LIBRARY = LIBRARIES / "libebbtide_fake_device.so"


def others_come_later(steps: int, held_bytes: int) -> None:
    taken = 0

    def count(*_: object) -> None:
        nonlocal taken
        taken += 1
        if taken == steps:
            device.fake_device_others(ctypes.c_int64(held_bytes))

    register_optimizer_step_post_hook(count)


class NextStep(torch.autograd.Function):
    """It begins a step, which ends the last one, and records nothing in it."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


def write_counts() -> None:
    Path(os.environ["FAKE_DEVICE_COUNTS"]).write_text(device.fake_device_counts().decode())


device = ctypes.CDLL(str(LIBRARY))
device.fake_device_offer.restype = ctypes.c_bool
device.fake_device_counts.restype = ctypes.c_char_p
device.fake_device_offer()
if "FAKE_DEVICE_COUNTS" in os.environ:
    atexit.register(write_counts)
if "FAKE_DEVICE_OTHERS" in os.environ:
    others_come_later(*map(int, os.environ["FAKE_DEVICE_OTHERS"].split(":")))
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
NextStep.apply(torch.zeros(1, requires_grad=True))
