"""Records the training steps in tests/data/traces: .venv/bin/python benchmarks/record_traces.py

Each network trains in a process of its own under EBBTIDE=1, which drops nothing. The last trace is
kept: its ops have the least durations seen until then.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("gpt", "resnet50", "densenet121", "unet")
STEPS = 6


def train(name: str) -> None:
    import torch
    from _trace_models import TASKS

    torch.manual_seed(0)
    torch.set_num_threads(1)
    task = TASKS[name]()
    optimizer = torch.optim.SGD(task.model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        task.loss().backward()
        optimizer.step()


def record(name: str, folder: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
        environment |= {"EBBTIDE": "1", "EBBTIDE_TRACE_DIR": scratch}
        subprocess.run([sys.executable, __file__, "--train", name], env=environment, check=True)
        traces = list(Path(scratch).glob("trace-*.json"))
        if not traces:
            raise SystemExit("no trace was written: is the plugin in this Python? (./dev build)")
        last = max(traces, key=lambda path: int(path.stem.rpartition("-")[2]))
        path = folder / f"{name}.json.gz"
        path.write_bytes(gzip.compress(last.read_bytes(), 9, mtime=0))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, help=f"of {', '.join(NAMES)}")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "data" / "traces")
    parser.add_argument("--train", choices=NAMES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        path = record(name, arguments.out)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
