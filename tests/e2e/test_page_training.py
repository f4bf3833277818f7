"""The page beside a real training: from its first plan over a change of the budget to its end."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import Page
from page_serving import Server, opened, shown
from processes import TIMEOUT_SECONDS, end, environment, free_port, script
from rank_client import ask
from warm_interpreter import Popen

MIB = 1024**2
# Its peak is 68 MiB in stock torch, as it was measured.
SMALL = ("--layers", "4", "--width", "128", "--heads", "4", "--length", "128")

STEPS = "Number(/([\\d,]+) steps/.exec(byId('where').innerText)?.[1].replaceAll(',', ''))"
# Chooses the smallest budget that the page proposes, once the curve is whole.
PROPOSED = """(() => {
  const slider = byId("proposal");
  if (state.curve?.value?.state !== "ready" || slider.disabled) return false;
  slider.value = slider.min;
  choose();
  return (globalThis.command = byId("command-now").innerText);
})()"""


# Over 20 s: two ranks train while a browser looks, changes budgets and waits for each to hold.
def test_a_training_from_its_first_plan_to_its_end(page: Page, tmp_path: Path) -> None:
    program = script("examples/train_gpt.py", *SMALL, "--steps", "100000", ranks=2)
    port = free_port(2)  # one for each rank
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as sockets:
        variables = {
            "EBBTIDE_BUDGET": "52MiB",
            "EBBTIDE_PORT": str(port),
            "EBBTIDE_SOCKET_DIR": sockets,
            "EBBTIDE_JOB_ID": "page",
        }
        training = Popen(
            program.command,
            env=environment(program, variables, tmp_path),
            stdout=(tmp_path / "output.log").open("w"),
            stderr=subprocess.STDOUT,
        )
        try:
            server = Server(training, f"http://127.0.0.1:{port}")
            wait_until(lambda: server.json("/v1/node")["ranks"][1].get("plan"))
            opened(page, server, "#rank=1")
            see_training(page, server, Path(sockets, "page", "rank-1.sock"))
        finally:
            end(training)
    page.wait("document.getElementById('link').dataset.state === 'away'")
    assert {entry["source"] for entry in page.console} <= {"network"}


def see_training(page: Page, server: Server, socket: Path) -> None:
    """Waits for each figure: a rank that is busy for a second has none until the next look."""
    page.wait("document.getElementById('count').innerText === '2 ranks · 2 training'")
    assert shown(page, "job") == "page"
    wait_until(lambda: server.json("/v1/status?rank=1")["memory"]["budget_bytes"] == 52 * MIB)
    page.wait("document.getElementById('kpis').innerText.includes('52.0 MiB')")

    def dearest_is_the_servers() -> bool:
        """Another plan may come between the two looks."""
        dearest = page.evaluate("document.querySelector('#ops tbody td')?.textContent")
        return dearest in {row["op"] for row in server.json("/v1/plan?rank=1")["recomputed"]}

    wait_until(dearest_is_the_servers)
    page.wait("memory.model?.planned.stack.length > 2")
    page.wait(f"(globalThis.before ??= {STEPS} || undefined) < {STEPS}")
    # What another hand changes is seen.
    asked = ask(socket, "POST", "/v1/budget", {"budget": "58MiB"})
    assert asked[0] == 200, asked
    page.wait("document.getElementById('kpis').innerText.includes('58.0 MiB')")
    page.wait(PROPOSED)
    command = page.evaluate("command")
    size = re.fullmatch(r"ebbtide budget 1 (\d+(?:MiB)?) --job page", command)
    assert size, command
    # What the page proposes, the rank takes.
    asked = ask(socket, "POST", "/v1/budget", {"budget": size[1]})
    assert asked[0] == 200, asked
    # A browser notes that the rank was busy, too.
    assert {entry["source"] for entry in page.console} <= {"network"}


def wait_until(true: Callable[[], Any]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        try:
            if true():
                return
        except (OSError, KeyError, IndexError):  # not there yet
            pass
        time.sleep(0.2)
    raise AssertionError("never true")
