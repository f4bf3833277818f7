"""The small training program, with what is asked of its rank's socket at the beginning of steps.

python tests/e2e/controlled_train.py --steps 12 --asks asks.json --out result.json

asks.json: a list of {"step": 4, "method": "POST", "path": "/v1/budget", "body": {...}}, where the
budget "smallest" is the one that the last refusal named. Without the plugin nothing is asked. With
asks each step waits until plans are made. Writes the losses and a hash of the parameters; beside
them, in answers.json, what was answered.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import planner
import tiny_train
import torch
from rank_client import ask

LARGEST_BLOCK_BYTES = 2 << 20  # blocks may lie badly


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--smaller-every", type=int, default=0, help="batches, a third as large")
    parser.add_argument("--end", type=Path, help="no step begins once this file is there")
    parser.add_argument("--hold", type=Path, help="step 20 begins once this file is there")
    parser.add_argument("--asks")
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(1)
    net = tiny_train.Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = tiny_train.Batches(options.steps, options.smaller_every)
    asks = json.loads(Path(options.asks).read_text()) if options.asks else []
    folder = os.environ.get("EBBTIDE_SOCKET_DIR")
    losses, answers = [], []
    for step in range(options.steps):
        if options.end and options.end.exists():
            break
        while options.hold and step == 20 and not options.hold.exists():
            time.sleep(0.002)
        for one in asks:
            if folder is None or one["step"] != step:
                continue
            socket = Path(folder, os.environ["EBBTIDE_JOB_ID"], "rank-0.sock")
            body = one.get("body")
            if body == {"budget": "smallest"}:
                smallest = answers[-1]["body"]["smallest_feasible_budget_bytes"]
                body = {"budget": smallest + LARGEST_BLOCK_BYTES}
            status, body = ask(socket, one["method"], one["path"], body)
            answers.append({"status": status, "body": body})
        losses += [value.hex() for value in tiny_train.plain(net, *batches[step], step)]
        optimizer.step()
        optimizer.zero_grad()
        if asks:
            planner.settle()
        print(f"step {step}", flush=True)
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    if options.out:
        result = {"losses": losses, "parameters_sha256": digest.hexdigest()}
        Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))
        Path(options.out).with_name("answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
