"""A training goes on as it would alone, whatever comes at its port."""

import json
import subprocess
import tempfile
import threading
import urllib.request
from pathlib import Path

import pytest
from conftest import MIB, measure
from hostile_clients import idle_connections, send_broken
from processes import TIMEOUT_SECONDS, Program, environment, free_port, run, script
from warm_interpreter import Popen

REQUESTS, CONNECTIONS, THREADS = 10_000, 1_000, 2
# Answers that nobody takes: 64 MiB a way in (docs/control.md); and what a connection needs.
MOST_GROWTH = 2 * 64 * MIB


def controlled(*arguments: str) -> Program:
    return script("tests/e2e/controlled_train.py", *arguments)


def resident_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise AssertionError("the training has ended")


def status(port: int) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=30) as answer:
        return json.loads(answer.read())


@pytest.mark.nightly  # tests/metrics/hostile_clients_test.cpp stands for it
def test_ten_thousand_broken_requests_and_a_thousand_connections(tmp_path: Path) -> None:
    """No number changes, the budget is held, memory stays bounded, and scrapes are answered."""
    measured = measure(controlled("--steps", "12"), tmp_path)
    budget = measured.budget(0.5)
    port = free_port()
    ends = tmp_path / "end"
    (tmp_path / "run").mkdir()
    program = controlled("--steps", "100000", "--end", str(ends))
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as sockets:
        variables = {
            "EBBTIDE_BUDGET": str(budget),
            "EBBTIDE_PORT": str(port),
            "EBBTIDE_SOCKET_DIR": sockets,
        }
        training = Popen(
            [*program.command, "--out", str(tmp_path / "run" / "result-{rank}.json")],
            env=environment(program, variables, tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for line in training.stdout:  # its plan is in force
                if line.startswith("step 20"):
                    break
            # Nobody reads all that it prints: a pipe that is full would stop it.
            drain = threading.Thread(target=training.stdout.read)
            drain.start()
            before, begun = resident_bytes(training.pid), status(port)["steps"]
            seen: set[str] = set()

            def attack(seed: int) -> None:
                seen.update(send_broken(("127.0.0.1", port), REQUESTS // THREADS, seed))

            attackers = [threading.Thread(target=attack, args=(seed,)) for seed in range(THREADS)]
            with idle_connections(("127.0.0.1", port), CONNECTIONS):
                for attacker in attackers:
                    attacker.start()
                while any(attacker.is_alive() for attacker in attackers):
                    assert status(port)["state"] == "training"
                    assert resident_bytes(training.pid) < before + MOST_GROWTH
                    for attacker in attackers:
                        attacker.join(0.2)
                after = status(port)
            ends.touch()
            training.wait(TIMEOUT_SECONDS)
            drain.join()
        finally:
            training.kill()
            training.wait()
    assert training.returncode == 0
    assert {f"HTTP/1.1 {code}" for code in ("400 Bad Request", "404 Not Found")} <= seen, seen
    assert "HTTP/1.1 403 Forbidden" in seen and "HTTP/1.1 421 Misdirected Request" in seen, seen
    assert after["steps"] > begun
    assert after["memory"]["budget_bytes"] == budget  # nobody paused or changed it
    assert after["memory"]["peak_mapped_bytes"] <= budget
    assert after["totals"]["budget_violations"] == after["totals"]["ooms"] == 0
    attacked = json.loads((tmp_path / "run" / "result-0.json").read_text())
    steps = len(attacked["losses"])
    alone = run(controlled("--steps", str(steps)), {}, tmp_path / "alone").succeeded()
    assert attacked == alone.results[0]
