"""Trains the tiny net while somebody sets the machine's clock: back, far ahead, and right again.

The clock is that of tests/stand_ins/set_clock.cpp, if it is loaded. Asks its own rank after each
step, if the plugin is there.
"""

import argparse
import ctypes
import json
import os
import time
from pathlib import Path

import planner
import tiny_train
import torch
from rank_client import ask

STEPS = 16
HOUR = 3600
SET = {5: -2 * HOUR, 9: 72 * HOUR, 12: 0}  # ahead of the true one, from these steps on
ASKED_OF = ("last_step_unix_seconds", "step_seconds", "recompute_ratio", "state")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    net = tiny_train.Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = tiny_train.Batches(STEPS)
    folder = os.environ.get("EBBTIDE_SOCKET_DIR")
    losses, told = [], []
    for step in range(STEPS):
        if step in SET and "LD_PRELOAD" in os.environ:
            ctypes.CDLL(None).set_clock(ctypes.c_int64(SET[step]))
        losses += [value.hex() for value in tiny_train.plain(net, *batches[step], step)]
        optimizer.step()
        optimizer.zero_grad()
        if folder is None:
            continue
        planner.settle()
        socket = Path(folder, os.environ["EBBTIDE_JOB_ID"], "rank-0.sock")
        _, status = ask(socket, "GET", "/v1/status")
        told.append({"now": time.time()} | {key: status[key] for key in ASKED_OF})
    Path(options.out.replace("{rank}", "0")).write_text(json.dumps({"losses": losses}))
    Path(options.out).with_name("told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
