"""Runs a training script on a device that is no CPU to the executor (tests/fake_device).

Writes how the executor called it to FAKE_DEVICE_COUNTS, where that is set.
"""

import atexit
import ctypes
import os
import runpy
import sys
from pathlib import Path

import torch  # noqa: F401  the plugin comes with it

LIBRARY = Path(__file__).resolve().parents[2] / "build/release/lib/libebbtide_fake_device.so"


def write_counts() -> None:
    Path(os.environ["FAKE_DEVICE_COUNTS"]).write_text(device.fake_device_counts().decode())


device = ctypes.CDLL(str(LIBRARY))
device.fake_device_offer.restype = ctypes.c_bool
device.fake_device_counts.restype = ctypes.c_char_p
device.fake_device_offer()
if "FAKE_DEVICE_COUNTS" in os.environ:
    atexit.register(write_counts)
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
