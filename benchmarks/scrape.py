"""How long a scrape of one rank and of a whole machine takes, and how many bytes it is.

    ./dev bench scrape [--ranks 64] [--ops 100] [--count 200] [--port 9464]

First of a rank that trains under a budget, then of a machine of made-up ranks (metrics_serve), each
with a server and a thread of its own. Their figures are made up, their series are the product's.
With --port a run that is there is asked instead.
"""

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from processes import free_port  # noqa: E402

SERVE = ROOT / "build/release/tests/metrics/metrics_serve"
TRAINING = ROOT / "tests" / "e2e" / "controlled_train.py"
BUDGET = "20MiB"  # alone it has 29 MiB: so some of its activations are computed again
MOST_STEPS = 20_000
MOST_HISTORY = 120  # steps in a status
PATIENCE_SECONDS = 120
OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}

OF_ONE_RANK = (
    ("metrics", "/metrics?rank=0", {}),
    ("OpenMetrics", "/metrics?rank=0", OPEN_METRICS),
    ("status", "/v1/status", {}),
    ("plan", "/v1/plan", {}),
    ("curve", "/v1/curve", {}),
)
OF_A_MACHINE = (
    ("a sibling, status", "/v1/status?rank=1", {}),
    ("all ranks, metrics", "/metrics", {}),
    ("all ranks, OpenMetrics", "/metrics", OPEN_METRICS),
    ("all ranks, status", "/v1/node", {}),
    ("the page", "/", {}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument(
        "--ops", type=int, default=100, help="kinds of operators that a rank runs again"
    )
    parser.add_argument("--count", type=int, default=200, help="requests of each kind")
    parser.add_argument("--port", type=int, help="of a run; default: as above")
    arguments = parser.parse_args()
    print(f"median, 99th percentile and most of {arguments.count}, over one connection")
    if arguments.port:
        measure(arguments.port, arguments.count, "one rank, ", OF_ONE_RANK)
        measure(arguments.port, arguments.count, "", OF_A_MACHINE)
        return
    with tempfile.TemporaryDirectory() as folder:
        training_rank(arguments.count, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        made_up_ranks(arguments.ranks, arguments.ops, arguments.count, folder)


def training_rank(count: int, folder: Path) -> None:
    port = free_port()
    variables = {name: value for name, value in os.environ.items() if name[:7] != "EBBTIDE"} | {
        "EBBTIDE_BUDGET": BUDGET,
        "EBBTIDE_PORT": str(port),
        "EBBTIDE_SOCKET_DIR": str(folder / "sockets"),
        "EBBTIDE_OFFLOAD": "never",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, TRAINING, "--steps", str(MOST_STEPS), "--end", folder / "end"]
    with (folder / "log").open("w") as log:
        training = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        try:
            status = planned(port, training)
            seconds = status["step_seconds"]["median"]
            print(
                f"a rank that trains, {1e3 * seconds:.1f} ms a step, "
                f"{100 * status['recompute_ratio']:.1f} % of it recompute"
            )
            measure(port, count, "", OF_ONE_RANK)
        finally:
            (folder / "end").touch()
            training.wait()


def planned(port: int, training: subprocess.Popen) -> dict:
    """The status of the rank, once it computes again, and has all that it will have to tell."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until and training.poll() is None:
        try:
            status, curve = (read(port, path) for path in ("/v1/status", "/v1/curve"))
            whole = len(status["history"]["steps"]) == MOST_HISTORY and curve["state"] == "ready"
            if whole and status["totals"]["recomputed_ops"]:
                return status
        except OSError:
            pass  # it does not answer yet
        time.sleep(0.2)
    raise SystemExit("the training has no plan, or no curve")


def read(port: int, path: str) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    body = json.loads(connection.getresponse().read())
    connection.close()
    return body


def made_up_ranks(ranks: int, ops: int, count: int, folder: str) -> None:
    server = subprocess.Popen(
        [SERVE, "--ranks", str(ranks), "--ops", str(ops), "--socket-dir", folder],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = json.loads(server.stdout.readline())["port"]
        print(f"{ranks} made-up ranks")
        measure(port, count, "one rank, ", OF_ONE_RANK)
        measure(port, count, "", OF_A_MACHINE)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)


def measure(port: int, count: int, of: str, requests: tuple[tuple[str, str, dict], ...]) -> None:
    for name, path, headers in requests:
        milliseconds, size, status = ask(port, path, headers, count)
        if status != 200:
            print(f"  {of + name:24}  status {status}")
            continue
        print(
            f"  {of + name:24} {statistics.median(milliseconds):8.2f} ms "
            f"{statistics.quantiles(milliseconds, n=100)[98]:8.2f} ms "
            f"{max(milliseconds):8.2f} ms {size:>10,} bytes"
        )


def ask(port: int, path: str, headers: dict, count: int) -> tuple[list[float], int, int]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    milliseconds = []
    for _ in range(count):
        started = time.perf_counter()
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        milliseconds.append((time.perf_counter() - started) * 1e3)
    connection.close()
    return milliseconds, len(body), response.status


if __name__ == "__main__":
    main()
