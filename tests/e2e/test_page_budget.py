"""What the page says of a rank's budget: how full it is, what another one costs, how it is set."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from browser import Page
from page_serving import Serve, opened, shown, without_node
from processes import LIBRARIES, TIMEOUT_SECONDS

pytestmark = pytest.mark.quick

GIB = 1024**3
PROGRAM = LIBRARIES.parent / "bin" / "ebbtide"


# --- What another budget costs ------------------------------------------------------------------


def test_a_proposal_stays_while_the_curve_fills(page: Page, serve: Serve) -> None:
    server = serve(1)
    whole = server.json("/v1/curve?rank=0")  # of 32 points, from 9 to 24 GiB

    def answered(count: int, state: str) -> None:
        """The largest points, as a rank sends them: one after the other, largest first."""
        page.answer("/v1/curve", whole | {"state": state, "points": whole["points"][-count:]})
        page.evaluate("askDetails(true)")
        page.wait(f"proposal.points.length === {count}")

    page.answer("/v1/curve", whole | {"state": "computing", "points": whole["points"][-2:]})
    opened(page, server)
    page.evaluate("document.getElementById('proposal').focus()")
    page.press("Home")
    page.press("ArrowRight", 2)
    parts = ("says", "command-now", "command-next")
    chosen = [shown(page, part) for part in parts]
    assert chosen[0].startswith("23.5 GiB: predicted peak ")  # the 31st point, and two steps
    for count, state in ((9, "computing"), (31, "computing"), (32, "ready")):
        answered(count, state)
        assert [shown(page, part) for part in parts] == chosen
        # The slider stands where the proposal is, as near as its grid allows.
        apart = "Math.abs(Number(byId('proposal').value) * proposal.grid - proposal.bytes)"
        assert page.evaluate(f"{apart} <= proposal.grid / 2")
    # With another plan the curve begins anew: what was chosen lies below its first points.
    page.press("Home")
    command = shown(page, "command-now")
    assert command.startswith("ebbtide budget 0 9GiB")
    answered(2, "computing")
    assert shown(page, "command-now") == command
    assert shown(page, "says").startswith("9.00 GiB: what it costs is being computed; ")
    answered(32, "ready")
    assert shown(page, "command-now") == command
    assert "slowdown +45.0 %" in shown(page, "says")
    # The 22nd point from the end is that of 9 + 10 * 15 / 31 = 13.8 GiB.
    answered(22, "ready")
    assert shown(page, "says").startswith("No plan fits 9.00 GiB. 13.8 GiB: predicted peak ")


def test_where_the_rank_is_now_is_what_it_measured(page: Page, serve: Serve) -> None:
    server = serve(1)
    curve = server.json("/v1/curve?rank=0")
    present = {"budget_bytes": 16 * GIB, "peak_bytes": 15 * GIB, "step_seconds": 1.0}
    opened(page, server)
    without_node(page)
    # What the rank does not tell is not worked out here: it is drawn at the bottom.
    for more, over in (
        ({"overhead_ratio": 0.3}, 0.3),
        ({"overhead_ratio": None}, None),
        ({}, None),
    ):
        curve["present"] = present | more
        page.answer("/v1/curve", curve)
        page.evaluate("readDetails(0, ++asked.turn)")
        drawn = page.evaluate(
            "(() => { const c = proposal.chart, [, up] = /M[\\d.]+ ([\\d.]+)/"
            ".exec(c.root.querySelector('.present').getAttribute('d'));"
            " return [Number(up) + 6, c.y(proposal.present.over ?? 0), proposal.present.over]; })()"
        )
        assert drawn[2] == over
        assert abs(drawn[0] - drawn[1]) < 0.01


# --- The lines to copy --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("gpt-2.1_b", " --job gpt-2.1_b"),
        ("-x", " --job=-x"),
        ("a b", ""),
        ("$(reboot)", ""),
        ("a;reboot", ""),
        ("é", ""),
        ("a\nb", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_command_names_the_job(page: Page, serve: Serve, job: str | None, said: str) -> None:
    server = serve(1)
    page.answer("/v1/node", server.json("/v1/node") | {"job_id": job})
    opened(page, server)
    assert shown(page, "command-now") == f"ebbtide budget 0 16GiB{said}"


def test_the_command_turns_one_of_two_jobs(page: Page, serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir(mode=0o700)
    servers = [serve(1, "--socket-dir", str(folder), "--job-id", job) for job in ("one", "two")]
    opened(page, servers[1])
    page.evaluate("document.getElementById('proposal').focus()")
    page.press("Home")
    command = shown(page, "command-now")
    assert command == "ebbtide budget 0 9GiB --job two"

    def run(words: list[str]) -> int:
        variables = os.environ | {"EBBTIDE_SOCKET_DIR": str(folder)}
        done = subprocess.run(
            [PROGRAM, *words], env=variables, capture_output=True, timeout=TIMEOUT_SECONDS
        )
        return done.returncode

    words = shlex.split(command)[1:]
    assert run(words[:3]) != 0  # of which job?
    assert run(words) == 0
    budgets = [one.json("/v1/status")["memory"]["budget_bytes"] for one in servers]
    assert budgets == [16 * GIB, 9 * GIB]


def test_no_ranks_budget_is_left_out(page: Page, serve: Serve) -> None:
    server = serve(8)
    node = server.json("/v1/node")
    node["ranks"] = [
        node["ranks"][0]
        | {"rank": rank, "memory": node["ranks"][0]["memory"] | {"budget_bytes": (20 + rank) * GIB}}
        for rank in range(60)
    ]
    page.answer("/v1/node", node)
    opened(page, server)
    page.evaluate("byId('proposal').value = 10 * 1024 ** 3 / proposal.grid; choose()")
    # All differ, so the first of the others' is the default; all the rest are named.
    own = ["rank0=10GiB", *(f"rank{rank}={20 + rank}GiB" for rank in range(2, 60))]
    assert shown(page, "command-next") == "EBBTIDE_BUDGET=" + ",".join(["default=21GiB", *own])


# --- How full a budget is -----------------------------------------------------------------------


def test_fullness_is_of_mapped_bytes_and_the_margin(page: Page, serve: Serve) -> None:
    server = serve(2)
    node = server.json("/v1/node")
    # The second has the higher peak, and holds less: the first has 2 GiB in its cache.
    held = {"allocated_bytes": 5 * GIB, "peak_allocated_bytes": 10 * GIB, "budget_bytes": 16 * GIB}
    mapped = (
        {"peak_mapped_bytes": 14 * GIB, "margin_bytes": GIB},
        {"peak_mapped_bytes": 12 * GIB, "margin_bytes": 0},
    )
    for rank, own, peak in zip(node["ranks"], mapped, (12 * GIB, 12.5 * GIB), strict=True):
        rank["memory"] = rank["memory"] | held | {"predicted_peak_bytes": None} | own
        rank["history"]["peak_bytes"] = [peak] * len(rank["history"]["peak_bytes"])
    page.answer("/v1/node", node)
    opened(page, server)
    parts = "[...document.querySelectorAll('#kpis div')].map((one) => one.innerText.split('\\n'))"
    kpis = {name: values for name, *values in page.evaluate(parts)}
    # (14 + 1) / 16 = 93.75 %
    assert kpis["Mapped + margin"] == ["15.0 GiB", "93.8 % of budget"]
    assert kpis["Peak of a step"][0] == "12.0 GiB"
    assert shown(page, "leaders").replace("\n", " ").startswith("Fullest 0: 93.8 %")
    assert "15.0 of 16.0 GiB mapped" in shown(page, "rank-0")
    label = "document.getElementById('rank-0').getAttribute('aria-label')"
    assert "live 5.00 GiB, peak 12.0 GiB, mapped and margin 15.0 GiB, budget 16.0 GiB" in (
        page.evaluate(label)
    )
    wide = "byId('rank-0').querySelector('.bar {}').style.transform"
    # The list's scale ends at the largest budget, 16 GiB.
    assert page.evaluate(wide.format(".mapped")) == "scaleX(0.9375)"
    assert page.evaluate(wide.format(".live")) == "scaleX(0.3125)"
    assert shown(page, "bar-keys").split() == ["live", "mapped", "budget", "predicted", "peak"]
    for key, first in (("fill", 0), ("mapped", 0), ("peak", 1)):
        page.evaluate(
            f"byId('sort').value = '{key}'; byId('sort').dispatchEvent(new Event('change'))"
        )
        assert page.evaluate("state.shown[0].rank") == first
    page.evaluate("select(1)")
    kpis = {name: values for name, *values in page.evaluate(parts)}
    assert kpis["Most mapped"] == ["12.0 GiB", "75.0 % of budget"]


def test_a_paused_ranks_plan_is_not_in_force(page: Page, serve: Serve) -> None:
    server = serve(1)
    node, plan = server.json("/v1/node"), server.json("/v1/plan?rank=0")
    page.answer("/v1/node", node)
    page.answer("/v1/plan", plan)
    opened(page, server)
    notice = "!document.getElementById('notice').hidden"
    assert not page.evaluate(notice)
    assert "not in force" not in page.evaluate("document.body.innerText")
    # A real rank keeps its plan while it is paused, for when it goes on.
    node["ranks"][0] |= {"mode": "paused", "state": "paused"}
    page.answer("/v1/node", node)
    page.answer("/v1/plan", plan | {"mode": "paused"})
    page.wait(notice)
    page.wait("state.plan?.value?.mode === 'paused'")
    said = "Paused: the plan below is not in force. Nothing is dropped, and no budget holds."
    assert shown(page, "notice") == said
    top = "document.getElementById('{}').getBoundingClientRect().top"
    assert page.evaluate(f"{top.format('notice')} < {top.format('kpis')}")
    assert shown(page, "plan-note") == "not in force while paused"
    assert "not in force while paused" in shown(page, "memory-note")
    assert shown(page, "ops-note") == "per step, not while paused"
    assert "plan not in force" in shown(page, "kpis")
    hidden = "byId('rank-0').querySelector('.guess').style.visibility"
    assert page.evaluate(hidden) == "hidden"
    # An older rank does not say its mode with its plan: its status does.
    page.answer("/v1/plan", {key: value for key, value in plan.items() if key != "mode"})
    page.evaluate("askDetails(true)")
    page.wait("state.plan?.state === 'ok' && !('mode' in state.plan.value)")
    assert shown(page, "notice") == said
    node["ranks"][0] |= {"mode": "budget", "state": "training"}
    page.answer("/v1/node", node)
    page.wait(f"!({notice})")
    assert page.console == []


# --- The measured step --------------------------------------------------------------------------


def test_mapped_bytes_are_drawn_where_they_were_recorded(page: Page, serve: Serve) -> None:
    server = serve(1)
    plan = server.json("/v1/plan?rank=0")
    line = {"seconds": [0, 1, 2], "live_bytes": [4 * GIB, 9 * GIB, 4 * GIB]}
    opened(page, server)
    without_node(page)
    page.evaluate("document.querySelector('#memory-table summary').click()")
    lines = "[...document.querySelectorAll('#memory-lines li')].map((one) => one.innerText)"
    rows = (
        "[...document.querySelectorAll('#memory-table table')].at(-1).querySelectorAll('tbody tr')"
    )

    def drawn(mapped: list | None) -> tuple[list[str], int, set[str]]:
        timeline = line | {"mapped_bytes": mapped, "budget_bytes": 16 * GIB}
        page.answer("/v1/plan", plan | {"timeline": timeline})
        page.evaluate("readDetails(0, ++asked.turn)")
        names = [row.split("\n")[0].split("\t")[0] for row in page.evaluate(lines)]
        paths = page.evaluate("document.querySelectorAll('#memory-plot .mapped-line').length")
        cells = page.evaluate(f"[...{rows}].map((row) => row.children[2].textContent)")
        return names, paths, set(cells)

    # 20 GiB is above the budget and all else: the drawing has room for it.
    names, paths, cells = drawn([10 * GIB, 20 * GIB, 20 * GIB])
    assert (names, paths) == (["live", "mapped", "budget"], 1)
    assert cells == {"10.0 GiB", "20.0 GiB"}
    box = "document.querySelector('#memory-plot .mapped-line').getBBox().y"
    assert page.evaluate(f"{box} >= memory.charts.at(-1).margin.top - 1")
    for nothing in (None, []):
        names, paths, cells = drawn(nothing)
        assert (names, paths, cells) == (["live", "budget"], 0, {"–"})
    assert page.console == []
