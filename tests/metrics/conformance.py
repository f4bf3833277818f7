"""Holds the server against metrics/openapi.json with schemathesis: made-up requests, valid and not,
over TCP with the token, to a machine of made-up ranks (metrics_serve).

    ./dev conformance [--examples N]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVE = ROOT / "build/release/tests/metrics/metrics_serve"
TOKEN = "a-token-of-the-conformance-test"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="requests of each kind")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        token_file = Path(folder, "token")
        token_file.touch(mode=0o600)
        token_file.write_text(TOKEN)
        server = subprocess.Popen(
            [SERVE, "--ranks", "4", "--socket-dir", folder, "--token-file", str(token_file)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            port = json.loads(server.stdout.readline())["port"]
            found = schemathesis(f"http://127.0.0.1:{port}", folder, arguments.examples)
        finally:
            server.send_signal(signal.SIGTERM)
            ended = server.wait(10)
    if ended != 0:
        print(f"conformance: the server ended with {ended}", file=sys.stderr)
    return found or ended


def schemathesis(url: str, folder: str, examples: int) -> int:
    program = Path(sys.executable).with_name("schemathesis")
    command = [program, "run", f"{url}/openapi.json", "--url", url, "--checks", "all"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--max-examples", str(examples)]
    command += ["--generation-deterministic", "--no-color", "--workers", "1"]
    return subprocess.run(command, cwd=folder, env=os.environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
