"""Turning a run while it trains: numbers stay, budgets hold, faults cost nothing."""

import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import MIB, Baseline, by_rank, measure
from processes import (
    ROOT,
    TIMEOUT_SECONDS,
    Finished,
    Program,
    free_port,
    run,
    script,
    settled,
    started,
    tiny,
    wait_for,
)
from rank_client import ask
from test_endings import PATIENT
from tiers import nightly_but

EVERY = 2  # steps, another budget
STEPS = 4 + 20 * EVERY + 2


def controlled(steps: int, asks: Path | None = None) -> Program:
    more = ("--asks", str(asks)) if asks else ()
    return script("tests/e2e/controlled_train.py", "--steps", str(steps), *more)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(controlled(STEPS), tmp_path_factory.mktemp("controlled"))


def turned(
    asks: list[dict], steps: int, variables: dict[str, str], sockets: Path, folder: Path
) -> tuple[Finished, list[dict]]:
    """Trains, and asks at these steps. What was answered."""
    (folder / "asks.json").write_text(json.dumps(asks))
    variables |= {"EBBTIDE_SOCKET_DIR": str(sockets), "EBBTIDE_JOB_ID": "job"}
    variables["TMPDIR"] = str(folder)  # a trace that is asked for
    done = run(controlled(steps, folder / "asks.json"), variables, folder / "run").succeeded()
    return done, json.loads((folder / "run" / "answers.json").read_text())


def budget_at(step: int, budget: object) -> dict:
    return {"step": step, "method": "POST", "path": "/v1/budget", "body": {"budget": budget}}


def status_at(step: int) -> dict:
    return {"step": step, "method": "GET", "path": "/v1/status"}


# --- budgets --------------------------------------------------------------------------------------


def test_twenty_changes_both_ways(baseline: Baseline, sockets: Path, tmp_path: Path) -> None:
    """Each is held from the promised step on, and no number changes."""
    shares = [0.5, 0.1, 0.6, 0.3, 0.55, 0.0, 0.4, 0.2, 0.6, 0.5] * 2  # of the activations given up
    budgets = [baseline.budget(share) for share in shares]
    asks = []
    for index, budget in enumerate(budgets):
        step = 4 + EVERY * index
        if index:
            asks.append(status_at(step))  # before the change: of the budget until then
        asks.append(budget_at(step, budget))
    asks.append(status_at(STEPS - 1))
    done, answers = turned(asks, STEPS, {"EBBTIDE": "1"}, sockets, tmp_path)
    assert done.results == baseline.plain.results
    changes = [one for one in answers if "from_step" in one["body"]]
    looks = [one["body"] for one in answers if "memory" in one["body"]]
    assert len(changes) == len(budgets) == len(looks) == 20, answers
    for index, (change, budget) in enumerate(zip(changes, budgets, strict=True)):
        assert change["status"] == 200
        # Before its first op the step that is counted from 0 is not the one that runs: that is the
        # one before it. So it is the next one.
        assert change["body"]["from_step"] == 4 + EVERY * index + 1, change
        assert change["body"]["before_bytes"] == (budgets[index - 1] if index else None)
        assert change["body"]["predicted_peak_bytes"] <= budget
        memory = looks[index]["memory"]
        assert memory["budget_bytes"] == budget
        assert 0 < memory["peak_mapped_bytes"] <= budget, (index, memory, done.output)
        assert looks[index]["totals"]["budget_violations"] == 0
    assert done.report["recomputed_ops"] > 0 and done.report["budget_violations"] == 0
    assert not done.report["pass_through"], done.output


def test_a_budget_that_cannot_be_held_is_refused(
    baseline: Baseline, sockets: Path, tmp_path: Path
) -> None:
    before = baseline.budget(0.4)
    asks = [
        budget_at(4, "30GB"),
        budget_at(4, 1 * MIB),
        budget_at(6, 1 * MIB),
        budget_at(6, "smallest"),
        status_at(9),
        budget_at(9, "none"),
    ]
    done, answers = turned(asks, 12, {"EBBTIDE_BUDGET": str(before)}, sockets, tmp_path)
    no_size, refused, again, held, status, lifted = answers
    assert no_size["status"] == 400 and "30GiB" in no_size["body"]["error"]
    assert refused["status"] == again["status"] == 409
    assert "too small" in refused["body"]["error"]
    smallest = again["body"]["smallest_feasible_budget_bytes"]
    assert 1 * MIB < smallest <= before
    assert held["status"] == 200 and held["body"]["before_bytes"] == before
    memory = status["body"]["memory"]
    asked = smallest + 2 * MIB  # as controlled_train.py asks
    assert memory["budget_bytes"] == asked and memory["peak_mapped_bytes"] <= asked
    assert lifted["status"] == 200 and lifted["body"]["budget_bytes"] is None
    assert done.results[0]["losses"] == baseline.plain.results[0]["losses"][:12]
    assert done.report["budget_bytes"] is None


def test_paused_it_is_pytorch_alone(baseline: Baseline, sockets: Path, tmp_path: Path) -> None:
    budget = baseline.budget(0.5)
    asks = [
        status_at(6),
        {"step": 6, "method": "POST", "path": "/v1/pause", "body": {"paused": True}},
        {"step": 7, "method": "GET", "path": "/v1/status"},
        status_at(10),
        budget_at(10, "1GiB"),
        {"step": 10, "method": "POST", "path": "/v1/pause", "body": {"paused": False}},
        {"step": 12, "method": "POST", "path": "/v1/replan", "body": {}},
        status_at(15),
    ]
    done, answers = turned(asks, 16, {"EBBTIDE_BUDGET": str(budget)}, sockets, tmp_path)
    assert done.results[0]["losses"] == baseline.plain.results[0]["losses"][:16]
    before, paused, begun, still, refused, resumed, replanned, after = (
        one["body"] for one in answers
    )
    assert (paused["from_step"], resumed["from_step"]) == (7, 11)
    assert begun["state"] == "paused" and begun["memory"]["budget_bytes"] is None
    assert before["totals"]["recomputed_ops"] > 0
    assert still["totals"]["recomputed_ops"] == begun["totals"]["recomputed_ops"]
    assert "paused" in refused["error"] and answers[4]["status"] == 409
    assert refused["code"] == "EB43"  # the line's, which said that it is paused
    assert answers[6]["status"] == 202 and replanned["from_step"] == 13
    assert after["state"] == "training" and after["memory"]["budget_bytes"] == budget
    assert after["totals"]["recomputed_ops"] > still["totals"]["recomputed_ops"]
    assert after["memory"]["peak_mapped_bytes"] <= budget


def test_views_of_a_run_under_a_plan(baseline: Baseline, sockets: Path, tmp_path: Path) -> None:
    budget = baseline.budget(0.5)
    asks = [
        {"step": step, "method": "GET", "path": path}
        for step, path in [(6, "/v1/curve"), (9, "/v1/plan"), (9, "/v1/config"), (14, "/v1/curve")]
    ]
    done, answers = turned(asks, 15, {"EBBTIDE_BUDGET": str(budget)}, sockets, tmp_path)
    _, plan, config, curve = (one["body"] for one in answers)
    assert plan["plan"]["recomputed_ops"] > 0
    measured = plan["timeline"]
    assert len(measured["seconds"]) == len(measured["live_bytes"]) > 2
    for live, mapped in zip(measured["live_bytes"], measured["mapped_bytes"], strict=True):
        assert 0 < live <= mapped <= budget
    sums = [sum(moment) for moment in zip(*(a["live_bytes"] for a in plan["areas"]), strict=True)]
    assert max(sums) == plan["plan"]["predicted_peak_bytes"]
    assert {"base", "kept", "recomputed"} <= {area["action"] for area in plan["areas"]}
    assert sum(row["ops"] for row in plan["recomputed"]) == plan["plan"]["recomputed_ops"]
    given = {row["name"]: row["value"] for row in config["variables"] if row["given"]}
    assert given["EBBTIDE_BUDGET"] == str(budget) and given["EBBTIDE_JOB_ID"] == "job"
    assert config["sockets"]["unix"] == str(sockets / "job" / "rank-0.sock")
    assert config["sockets"]["tcp"].startswith("127.0.0.1:")
    assert curve["state"] == "ready", curve
    budgets = [point["budget_bytes"] for point in curve["points"]]
    ratios = [point["overhead_ratio"] for point in curve["points"]]
    assert len(budgets) > 2 and budgets == sorted(budgets)
    assert ratios == sorted(ratios, reverse=True) and ratios[-1] == 0
    assert done.results[0]["losses"] == baseline.plain.results[0]["losses"][:15]


@pytest.mark.nightly  # each of up to 80 budgets is planned for
def test_one_rank_of_a_pipeline_is_turned(sockets: Path, tmp_path: Path) -> None:
    """Beside the plan that the ranks agree on: nobody waits for ever, and no number changes."""
    size = "--layers 4 --width 128 --heads 4 --length 128 --batch 4 --steps 30".split()
    program = settled(str(ROOT / "examples" / "train_pipeline.py"), *size, ranks=2)
    measured = measure(program, tmp_path / "measured")
    variables = {
        "EBBTIDE_BUDGET": by_rank(measured.rank_budgets(0.5)),
        "EBBTIDE_SOCKET_DIR": str(sockets),
        "EBBTIDE_JOB_ID": "job",
    }
    found: list[tuple[int, dict]] = []
    ended = threading.Event()

    def turn() -> None:
        for share in (0.6, 0.3, 0.5, 0.2) * 20:
            if ended.wait(0.3):
                return
            try:
                body = {"budget": measured.rank_budgets(share)[1]}
                found.append(ask(sockets / "job" / "rank-1.sock", "POST", "/v1/budget", body))
            except Exception:  # not there yet, or no longer
                pass

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        done = run(program, variables, tmp_path / "turned").succeeded()
    finally:
        ended.set()
        thread.join()
    assert done.results == measured.plain.results
    statuses = {status for status, _ in found}
    assert 200 in statuses and statuses <= {200, 503}, found
    assert not any(report["pass_through"] for report in done.reports), done.output


# --- where it is found ----------------------------------------------------------------------------


def test_two_jobs_on_one_node(sockets: Path, tmp_path: Path) -> None:
    """A port that is named is the only one: the second job serves its socket alone, and trains."""
    port = str(free_port())
    jobs = []
    try:
        for name in ("one", "two"):
            variables = {
                "EBBTIDE": "1",
                "EBBTIDE_PORT": port,
                "EBBTIDE_SOCKET_DIR": str(sockets),
                "EBBTIDE_JOB_ID": name,
            }
            (tmp_path / name).mkdir()
            jobs.append(started(tiny(steps=5000), variables, tmp_path / name))
            # A process that no launcher started may learn of others for 5 s: it warns after that.
            taken = "warning: no web page and no /metrics for this job: another program uses"
            output = wait_for(jobs[-1], taken if name == "two" else "step 1")
            assert (f"{taken} 127.0.0.1 port {port}" in output) == (name == "two"), output
        for name, job in zip(("one", "two"), jobs, strict=True):
            status, body = ask(sockets / name / "rank-0.sock", "GET", "/v1/status")
            assert (status, body["pid"], body["job_id"]) == (200, job.pid, name)
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_the_next_job_takes_the_next_port(sockets: Path, tmp_path: Path) -> None:
    """Where none is named. Whoever else has 9464 and those beside it counts as a job before."""
    jobs, served = [], []
    try:
        for name in ("one", "two"):
            variables = {
                "EBBTIDE": "1",
                "EBBTIDE_PORT": "",  # as if it were not set
                "EBBTIDE_SOCKET_DIR": str(sockets),
                "EBBTIDE_JOB_ID": name,
            }
            (tmp_path / name).mkdir()
            jobs.append(started(tiny(steps=5000), variables, tmp_path / name))
            output = wait_for(jobs[-1], "step 1")
            line = re.search(r"metrics http://127\.0\.0\.1:(\d+)/metrics(.*), socket", output)
            assert line is not None, output
            served.append(int(line.group(1)))
            assert (line.group(2) == " (9464 is taken)") == (served[-1] != 9464), output
            with urllib.request.urlopen(f"http://127.0.0.1:{served[-1]}/v1/node") as answer:
                assert json.load(answer)["job_id"] == name
        assert served[0] != served[1] and all(9464 <= port < 9480 for port in served)
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_the_socket_of_a_dead_run_is_replaced(sockets: Path, tmp_path: Path) -> None:
    variables = {"EBBTIDE": "1", "EBBTIDE_SOCKET_DIR": str(sockets), "EBBTIDE_JOB_ID": "job"}
    path = sockets / "job" / "rank-0.sock"
    for _ in range(2):
        process = started(tiny(steps=5000), variables, tmp_path)
        try:
            assert "warning" not in wait_for(process, "step 1")
            assert ask(path, "GET", "/v1/status")[1]["pid"] == process.pid
            assert path.stat().st_mode & 0o777 == 0o600
        finally:
            process.kill()
            process.communicate()
        assert path.exists()
    run(tiny(steps=2), variables, tmp_path / "whole").succeeded()
    assert not path.parent.exists()  # one that ends leaves nothing


@pytest.mark.parametrize(
    "fault",
    nightly_but({"open", "too_long"}, ("unwritable", "open", "another", "a_file", "too_long")),
)
def test_folders_that_cannot_be_used_cost_a_warning(
    fault: str, baseline: Baseline, sockets: Path, tmp_path: Path
) -> None:
    folder = sockets / "given"
    if fault == "unwritable":
        folder = Path("/proc/ebbtide")
    elif fault == "open":
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    elif fault == "another":
        if os.geteuid() != 0:
            pytest.skip("only root gives a folder away")
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, 12345)
    elif fault == "a_file":
        folder.touch()
    else:
        folder = sockets / ("x" * 120)
    variables = {"EBBTIDE": "1", "EBBTIDE_SOCKET_DIR": str(folder), "EBBTIDE_JOB_ID": "job"}
    done = run(controlled(2), variables, tmp_path).succeeded()
    assert done.said(
        "warning: .*" + ("EBBTIDE_SOCKET_DIR" if fault == "too_long" else str(folder))
    ), done.output
    assert done.results[0]["losses"] == baseline.plain.results[0]["losses"][:2]


# --- clients --------------------------------------------------------------------------------------


def post(port: int, token: str | None) -> int:
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    url = f"http://127.0.0.1:{port}/v1/replan"
    request = urllib.request.Request(url, b"{}", headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_over_tcp_only_who_has_the_token_changes_things(sockets: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    port = free_port()
    variables = {
        "EBBTIDE": "1",
        "EBBTIDE_PORT": str(port),
        "EBBTIDE_SOCKET_DIR": str(sockets),
        "EBBTIDE_TOKEN_FILE": str(token),
    }
    for mode, allowed in [(0o600, True), (0o644, False)]:
        token.chmod(mode)
        process = started(tiny(steps=5000), variables, tmp_path)
        try:
            output = wait_for(process, "step 1")
            assert ("EBBTIDE_TOKEN_FILE is not used" in output) != allowed, output
            answered = post(port, token.read_text().strip())
            assert answered == 202 if allowed else answered in (401, 403)
            assert post(port, "0123456789abcdef0123456789abcdeF") in (401, 403)
            assert post(port, None) in (401, 403)
        finally:
            process.kill()
            process.communicate()


def test_terminated_while_it_is_asked(sockets: Path, tmp_path: Path) -> None:
    """By clients that read, one that never does, and one whose request never ends."""
    port = free_port()
    variables = PATIENT | {
        "EBBTIDE_BUDGET": "1GiB",
        "EBBTIDE_PORT": str(port),
        "EBBTIDE_SOCKET_DIR": str(sockets),
        "EBBTIDE_JOB_ID": "job",
    }
    process = started(tiny(steps=5000), variables, tmp_path)
    asked = threading.Event()

    def scrape() -> None:
        while process.poll() is None:
            try:
                ask(sockets / "job" / "rank-0.sock", "GET", "/v1/status")
                asked.set()
            except (OSError, ValueError):
                return
            except Exception:  # a cut answer
                return

    lines = []
    try:
        wait_for(process, "step 2")
        thread = threading.Thread(target=scrape)
        thread.start()
        half, deaf = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))
        half.sendall(b"GET /v1/plan HTTP/1.1\r\nHost: localhost\r\n")
        deaf.sendall(b"GET /v1/plan HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        assert asked.wait(TIMEOUT_SECONDS)
        process.send_signal(signal.SIGTERM)
        # It would end after 605 s if one of these clients held it up.
        lines, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == -signal.SIGTERM, lines
        assert json.loads((tmp_path / "report-0.json").read_text())["ended"], lines
        thread.join(TIMEOUT_SECONDS)
        half.close()
        deaf.close()
    finally:
        process.kill()
        process.communicate()


def test_a_run_ends_while_it_is_asked(baseline: Baseline, sockets: Path, tmp_path: Path) -> None:
    """Budgets are asked for without a pause, until nobody answers: each answer is a defined one."""
    variables = {
        "EBBTIDE_BUDGET": str(baseline.budget(0.3)),
        "EBBTIDE_SOCKET_DIR": str(sockets),
        "EBBTIDE_JOB_ID": "job",
    }
    program = controlled(30)
    answered = tmp_path / "answered"
    out = str(tmp_path / "result-{rank}.json")
    command = (*program.command, "--hold", str(answered), "--out", out)
    process = started(replace(program, command=command), variables, tmp_path)
    found: set[int] = set()

    def turn(share: float) -> None:
        while process.poll() is None:
            try:
                body = {"budget": baseline.budget(share)}
                found.add(ask(sockets / "job" / "rank-0.sock", "POST", "/v1/budget", body)[0])
                if 200 in found:
                    answered.touch()
            except Exception:  # not there yet, or no longer
                time.sleep(0.01)

    threads = [threading.Thread(target=turn, args=(share,)) for share in (0.2, 0.5, 0.0, 0.4)]
    for thread in threads:
        thread.start()
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
        for thread in threads:
            thread.join()
    assert process.returncode == 0, output
    assert 200 in found and found <= {200, 429, 503}, found
    result = json.loads((tmp_path / "result-0.json").read_text())
    assert result["losses"] == baseline.plain.results[0]["losses"][:30]
    report = json.loads((tmp_path / "report-0.json").read_text())
    assert report["budget_violations"] == 0 and not report["pass_through"], output
