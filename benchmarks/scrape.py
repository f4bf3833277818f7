"""How long a scrape of one rank and of a whole machine takes, and how many bytes it is.

    ./dev bench scrape [--ranks 64] [--ops 100] [--count 200] [--port 9464]

Ranks are made up (metrics_serve), each with a server and a thread of its own; with --port those of
a run that is there are asked.
"""

import argparse
import http.client
import json
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVE = ROOT / "build/release/tests/metrics/metrics_serve"
OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--ops", type=int, default=100, help="series of operators a rank")
    parser.add_argument("--count", type=int, default=200, help="requests of each kind")
    parser.add_argument("--port", type=int, help="of a run; default: made-up ranks")
    arguments = parser.parse_args()
    if arguments.port:
        measure(arguments.port, arguments.count)
        return
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [SERVE, "--ranks", str(arguments.ranks), "--ops", str(arguments.ops)]
            + ["--socket-dir", folder],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            port = json.loads(server.stdout.readline())["port"]
            print(f"{arguments.ranks} made-up ranks")
            measure(port, arguments.count)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(10)


def measure(port: int, count: int) -> None:
    print(f"median, 99th percentile and most of {count}, over one connection that is kept")
    for name, path, headers in (
        ("one rank, metrics", "/metrics?rank=0", {}),
        ("one rank, OpenMetrics", "/metrics?rank=0", OPEN_METRICS),
        ("one rank, status", "/v1/status", {}),
        ("one rank, plan", "/v1/plan", {}),
        ("a sibling, status", "/v1/status?rank=1", {}),
        ("all ranks, metrics", "/metrics", {}),
        ("all ranks, OpenMetrics", "/metrics", OPEN_METRICS),
        ("all ranks, status", "/v1/node", {}),
        ("the page", "/", {}),
    ):
        milliseconds, size, status = ask(port, path, headers, count)
        if status != 200:
            print(f"{name:24}  status {status}")
            continue
        print(
            f"{name:24} {statistics.median(milliseconds):8.2f} ms "
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
