"""What real ranks answer is what metrics/openapi.json says, member by member: with and without a
plan, paused, and where something is refused. ./dev conformance asks made-up ranks far more."""

import json
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Baseline, by_rank, measure
from jsonschema import Draft202012Validator
from processes import ROOT, TIMEOUT_SECONDS, environment, free_port, run, script
from rank_client import ask, send
from scraped_run import OPEN_METRICS, eventually, started
from test_control import budget_at, controlled, turned

DESCRIPTION = json.loads((ROOT / "metrics" / "openapi.json").read_text())
READS = [path for path, methods in DESCRIPTION["paths"].items() if "get" in methods]
OF_A_RANK = ["/v1/status", "/v1/plan", "/v1/curve", "/v1/config"]
PROGRAM = "tests/e2e/stages_train.py"  # a pipeline: its plan has a picture of the microbatches
RANKS = 2
STEPS = 16
TOKEN = "0123456789abcdef0123456789abcdef"


def closed(schema: object) -> object:
    """With no members but those that are described. Clients have to bear more of later versions."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    return parts | ({"additionalProperties": False} if "properties" in schema else {})


SCHEMAS = closed(DESCRIPTION["components"]["schemas"])


def resolved(part: dict) -> dict:
    """A response, or what it refers to."""
    if "$ref" not in part:
        return part
    _, *names = part["$ref"].split("/")
    found = DESCRIPTION
    for name in names:
        found = found[name]
    return found


def differences(schema: dict, body: object) -> list[str]:
    """What of the body is not as the schema says, which may refer to the description's others."""
    validator = Draft202012Validator(schema | {"components": {"schemas": SCHEMAS}})
    return [f"{error.json_path}: {error.message}"[:300] for error in validator.iter_errors(body)]


def check(
    method: str, path: str, status: int, body: object, kind: str = "application/json"
) -> None:
    """The answer is one of those described for that request."""
    path = path.partition("?")[0]
    operation = DESCRIPTION["paths"][path][method.lower()]
    assert str(status) in operation["responses"], (method, path, status, body)
    content = resolved(operation["responses"][str(status)])["content"]
    assert kind in content, (method, path, status, kind)
    schema = closed(content[kind]["schema"])
    errors = differences(schema, body)
    assert not errors, (method, path, status, errors)


@pytest.mark.quick
def test_the_description_is_json_schema() -> None:
    for name, schema in DESCRIPTION["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert SCHEMAS[name] != schema or "properties" not in schema


@pytest.mark.quick
@pytest.mark.parametrize("change", ["another type", "one less", "one more"])
def test_an_answer_that_differs_is_found(change: str) -> None:
    content = DESCRIPTION["paths"]["/v1/status"]["get"]["responses"]["200"]["content"]
    status = json.loads(json.dumps(content["application/json"]["example"]))
    check("GET", "/v1/status", 200, status)
    if change == "another type":
        status["memory"]["mapped_bytes"] = "much"
    elif change == "one less":
        del status["memory"]["mapped_bytes"]
    else:
        status["memory"]["undescribed_bytes"] = 1
    with pytest.raises(AssertionError, match="mapped_bytes|undescribed_bytes"):
        check("GET", "/v1/status", 200, status)


# --- a rank's socket, while it trains -------------------------------------------------------------


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(controlled(STEPS), tmp_path_factory.mktemp("controlled"))


def looks_at(step: int) -> list[dict]:
    return [{"step": step, "method": "GET", "path": path} for path in OF_A_RANK]


def post_at(step: int, path: str, body: object) -> dict:
    return {"step": step, "method": "POST", "path": path, "body": body}


# Over 20 s: a run of its own that waits for a plan after each change, and a hundred answers.
def test_a_rank_with_and_without_a_plan(baseline: Baseline, sockets: Path, tmp_path: Path) -> None:
    budget = baseline.budget(0.5)
    asks = [
        *looks_at(1),  # no plan yet
        *looks_at(6),
        budget_at(6, 1 << 20),
        budget_at(6, "30GB"),
        budget_at(6, budget + (1 << 20)),
        post_at(6, "/v1/trace", {"steps": 2}),
        post_at(6, "/v1/trace", {"steps": 0}),
        post_at(6, "/v1/replan", {}),
        post_at(8, "/v1/pause", {"paused": True}),
        *looks_at(10),
        post_at(10, "/v1/replan", {}),
        post_at(10, "/v1/pause", {"paused": 1}),
        post_at(10, "/v1/pause", {"paused": False}),
        budget_at(13, "none"),
        *looks_at(15),
    ]
    _, answers = turned(asks, STEPS, {"EBBTIDE_BUDGET": str(budget)}, sockets, tmp_path)
    for one, answer in zip(asks, answers, strict=True):
        check(one["method"], one["path"], answer["status"], answer["body"])
    statuses = [answer["status"] for answer in answers]
    read = [200] * len(OF_A_RANK)
    changed = [409, 400, 200, 202, 400, 202, 200]
    while_paused = [409, 400, 200]
    assert statuses == [*read, *read, *changed, *read, *while_paused, 200, *read], answers
    # What was looked at: a plan that is not there, one that is, a pause, and none any more.
    statuses_read, plans = (
        [a["body"] for one, a in zip(asks, answers, strict=True) if one["path"] == path]
        for path in ("/v1/status", "/v1/plan")
    )
    states = [one["state"] for one in statuses_read]
    assert states == ["starting", "training", "paused", "training"]
    assert [plan["mode"] for plan in plans] == ["budget", "budget", "paused", "measure"]
    none, some, _, none_again = plans
    assert none["plan"] is none_again["plan"] is None and not none["areas"]
    assert some["plan"] and some["areas"] and some["recomputed"]


def test_a_rank_without_a_budget(sockets: Path, tmp_path: Path) -> None:
    asks = [*looks_at(1), *looks_at(6)]
    _, answers = turned(asks, 8, {"EBBTIDE": "1"}, sockets, tmp_path)
    for one, answer in zip(asks, answers, strict=True):
        assert answer["status"] == 200
        check(one["method"], one["path"], 200, answer["body"])
    assert {answers[0]["body"]["mode"], answers[4]["body"]["mode"]} == {"measure"}


# --- a machine ------------------------------------------------------------------------------------


@dataclass
class Machine:
    port: int
    sockets: Path  # of the job
    training: subprocess.Popen

    def becomes_planned(self) -> None:
        """Tests before this one have changed budgets: plans are made anew."""

        def planned() -> bool:
            ranks = self.ask("GET", "/v1/node")[1]["ranks"]
            return len(ranks) == RANKS and all(rank.get("plan") for rank in ranks)

        eventually(planned, self.training)

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, object, str]:
        """Over TCP: status, body, type."""
        data = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} | (headers or {})
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data, given, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            kind = answer.headers["Content-Type"].partition(";")[0]
            text = answer.read().decode()
            return answer.status, json.loads(text) if kind == "application/json" else text, kind

    def checked(self, method: str, path: str, *more: object) -> tuple[int, object]:
        status, body, kind = self.ask(method, path, *more)
        check(method, path, status, body, kind)
        return status, body


@contextmanager
def training_machine(folder: Path) -> Iterator[Machine]:
    """Two ranks of a pipeline, each with a plan."""
    measuring = script(PROGRAM, "--steps", "3", ranks=RANKS)
    measured = run(measuring, {"EBBTIDE": "1"}, folder / "measured").succeeded()
    budgets = [
        report["plain_peak_bytes"] - report["activation_bytes"] // 16 for report in measured.reports
    ]
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    program = script(PROGRAM, "--until", str(folder / "end"), ranks=RANKS)
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as sockets:
        variables = {
            "EBBTIDE_BUDGET": by_rank(budgets),
            "EBBTIDE_PORT": str(free_port()),
            "EBBTIDE_SOCKET_DIR": sockets,
            "EBBTIDE_JOB_ID": "job",
            "EBBTIDE_TOKEN_FILE": str(token),
            "EBBTIDE_TRACE_DIR": str(folder),
        }
        with started(
            list(program.command),
            env=environment(program, variables, folder),
            cwd=folder,
            stdout=subprocess.DEVNULL,
        ) as training:
            one = Machine(int(variables["EBBTIDE_PORT"]), Path(sockets, "job"), training)
            one.becomes_planned()
            yield one
            (folder / "end").touch()
            training.wait(TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with training_machine(tmp_path_factory.mktemp("machine")) as one:
        yield one


# For what changes so much that other tests do not find what they look for.
@pytest.fixture
def machine_of_its_own(tmp_path: Path) -> Iterator[Machine]:
    with training_machine(tmp_path) as one:
        yield one


@pytest.mark.parametrize("path", READS)
def test_everything_that_is_read(machine: Machine, path: str) -> None:
    """Each path of the description, of both ranks."""
    operation = DESCRIPTION["paths"][path]["get"]
    assert machine.checked("GET", path)[0] == 200
    if not operation.get("parameters"):
        return
    for rank in range(RANKS):
        status, body = machine.checked("GET", f"{path}?rank={rank}")
        assert status == 200
        assert not isinstance(body, dict) or body["rank"] == rank
    assert machine.checked("GET", f"{path}?rank={RANKS}")[0] == 404
    assert machine.checked("GET", f"{path}?rank=none")[0] == 400


def test_open_metrics_has_its_type(machine: Machine) -> None:
    status, body, kind = machine.ask("GET", "/metrics", None, {"Accept": OPEN_METRICS})
    assert kind == "application/openmetrics-text"
    check("GET", "/metrics", status, body, kind)


def test_a_machine_has_all_its_ranks(machine: Machine) -> None:
    machine.becomes_planned()

    def all_there() -> bool:  # a rank that answers late is left out
        ranks = machine.checked("GET", "/v1/node")[1]["ranks"]
        numbers = [rank["rank"] for rank in ranks]
        return numbers == list(range(RANKS)) and all(rank.get("plan") for rank in ranks)

    eventually(all_there, machine.training)
    assert machine.checked("GET", "/v1/plan?rank=1")[1]["gantt"]["rows"]


def test_what_is_refused(machine: Machine) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    # The one in force, so that the plan stays.
    body = {"budget": machine.checked("GET", "/v1/status")[1]["memory"]["budget_bytes"]}
    for headers, expected in (
        (None, 401),
        ({"Authorization": f"Bearer {TOKEN[::-1]}"}, 401),
        (bearer | {"Origin": "http://elsewhere.example"}, 403),
        (bearer | {"Host": "elsewhere.example"}, 421),
        (bearer, 200),
    ):
        assert machine.checked("POST", "/v1/budget", body, headers)[0] == expected, headers
    # A path and a method that are not described have a body all the same.
    for method, path, expected in (
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/status", 405),
        ("GET", "/v1/budget", 405),
        ("DELETE", "/v1/plan", 405),
    ):
        status, answer, _ = machine.ask(method, path, {} if method == "POST" else None, bearer)
        assert status == expected, (method, path, answer)
        assert not differences(SCHEMAS["Error"], answer), (method, path, answer)


def test_every_change_over_a_socket(machine_of_its_own: Machine) -> None:
    socket = machine_of_its_own.sockets / "rank-1.sock"

    def knows_its_steps() -> bool:  # until then no budget can be judged
        status, answer = ask(socket, "POST", "/v1/budget", {"budget": 1 << 20})
        check("POST", "/v1/budget", status, answer)
        return status != 503

    eventually(knows_its_steps, machine_of_its_own.training)
    for path, body, expected in (
        ("/v1/budget", {"budget": 1 << 20}, 409),
        ("/v1/budget", {"budget": "none"}, 200),
        ("/v1/replan", {}, 202),
        ("/v1/trace", {"steps": 1}, 202),
        ("/v1/pause", {"paused": True}, 200),
        ("/v1/pause", {"paused": False}, 200),
        ("/v1/pause", {"paused": "yes"}, 400),
    ):
        status, answer = ask(socket, "POST", path, body)
        check("POST", path, status, answer)
        assert status == expected, (path, body, answer)
    changes = {path for path, methods in DESCRIPTION["paths"].items() if "post" in methods}
    for path in sorted(changes):
        status, answer = send(socket, "POST", path, '{"a": 1, "a": 2}')
        check("POST", path, status, answer)
        assert status == 400, (path, answer)


def test_a_budget_that_is_refused_while_paused(machine: Machine) -> None:
    socket = machine.sockets / "rank-1.sock"
    assert ask(socket, "POST", "/v1/pause", {"paused": True})[0] == 200
    try:
        status, answer = ask(socket, "POST", "/v1/budget", {"budget": "1GiB"})
        assert status == 409
        check("POST", "/v1/budget", status, answer)
    finally:
        assert ask(socket, "POST", "/v1/pause", {"paused": False})[0] == 200


def test_a_snapshot(machine: Machine) -> None:
    status, answer = ask(machine.sockets / "rank-1.sock", "POST", "/v1/snapshot", {})
    assert status == 200
    check("POST", "/v1/snapshot", status, answer)
