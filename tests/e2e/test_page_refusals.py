"""Servers that answer with a reason in place of figures, and ranks that have left or turned."""

import pytest
from browser import Page
from page_serving import LIVE, Serve, Server, opened, shown

pytestmark = pytest.mark.quick

AWAY = "document.getElementById('link').dataset.state === 'away'"
SHOWN = "state.plan?.state === 'ok' && state.curve?.state === 'ok'"
SENTENCES = {
    421: "this server is not that host",
    429: "too many requests wait for an answer; try again in a while",
    503: "the run ends",
}


@pytest.mark.parametrize("status", SENTENCES)
def test_the_servers_reason_is_shown(page: Page, serve: Serve, status: int) -> None:
    server = serve(2)
    opened(page, server)
    page.answer("/v1/node", {"error": SENTENCES[status]}, status)
    page.wait(AWAY)
    said = f"The server refuses: {SENTENCES[status]}. What was last read stays."
    assert shown(page, "state") == SENTENCES[status]
    assert shown(page, "stale") == shown(page, "spoken") == said
    assert shown(page, "title") == "Rank 0"
    # The next one is told apart, and so is a server that says nothing that can be read.
    page.answer("/v1/node", b"<html>", 502)
    page.wait("document.getElementById('state').innerText === 'the server answered 502'")
    page.answer("/v1/node", {"why": "no such key"}, 500)
    page.evaluate("later(0)")
    page.wait("document.getElementById('state').innerText === 'the server answered 500'")
    page.answer("/v1/node", server.json("/v1/node"))
    page.evaluate("later(0)")
    page.wait(LIVE)
    assert page.evaluate("document.getElementById('stale').hidden")


def test_a_long_reason_fits(page: Page, serve: Serve) -> None:
    opened(page, serve(2))
    page.answer("/v1/node", {"error": "w" * 250 + " " + "w " * 20}, 503)
    page.wait(AWAY)
    for width in (320, 480, 760, 1000, 1180, 1440):
        page.resize(width, 800)
        page.wait(f"innerWidth === {width}")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, width
        again = "document.getElementById('again').getBoundingClientRect()"
        assert page.evaluate(f"{again}.right") <= width  # still there to be pressed


def test_a_rank_that_has_left_is_alone_in_that(page: Page, serve: Serve) -> None:
    server = serve(4)
    for path in ("/v1/plan", "/v1/curve"):
        page.answer(f"{path}?rank=3", {"error": "rank 3 is not on this machine"}, 404)
    opened(page, server, "#rank=3")
    for place in ("memory-plot", "curve-plot", "ops"):
        assert shown(page, place) == "Not available: rank 3 is not on this machine"
    page.evaluate("list.focus()")
    page.press("Home")
    page.wait(SHOWN)
    assert page.evaluate("memory.model.planned.stack.length") > 2
    assert page.evaluate("absent.size") == 0


def test_what_fails_for_now_leaves_what_was_read(page: Page, serve: Serve) -> None:
    opened(page, serve(1))
    page.wait(SHOWN)
    for path in ("/v1/plan", "/v1/curve"):
        page.answer(path, {"error": SENTENCES[429]}, 429)
    page.evaluate("document.getElementById('refresh').click()")
    for note in ("memory-note", "curve-note", "plan-note"):
        page.wait(f"byId('{note}').innerText === 'as last read: {SENTENCES[429]}'")
    assert page.evaluate("memory.model.planned.stack.length") > 2
    assert not page.evaluate("document.getElementById('proposal').disabled")


def test_a_rank_that_is_late_keeps_what_was_read(page: Page, serve: Serve) -> None:
    server = serve(2)
    node = server.json("/v1/node")
    opened(page, server)
    page.wait(SHOWN)  # a rank that was late at first has nothing to keep
    late = {"rank": 0, "error": "the rank did not answer within 1000 ms", "code": "EB124"}
    page.answer("/v1/node", node | {"ranks": [late, node["ranks"][1]]})
    page.evaluate("later(0)")
    for note in ("memory-note", "curve-note", "plan-note"):
        page.wait(f"byId('{note}').innerText === 'as last read: {late['error']}'")
    assert page.evaluate("memory.model.planned.stack.length") > 2
    # Nothing was read for the other rank.
    page.answer("/v1/node", node | {"ranks": [node["ranks"][0], late | {"rank": 1}]})
    page.evaluate("later(0)")
    page.wait("byId('memory-note').innerText.startsWith('as the plan')")
    page.evaluate("select(1)")
    page.wait(f"byId('memory-plot').innerText === 'Not available: {late['error']}'")


# --- Rows of other ranks ------------------------------------------------------------------------


def one_row_each(page: Page, server: Server, ranks: int) -> dict:
    """The server's node; each rank's plan has a pipeline of its own row."""
    node, plan = server.json("/v1/node"), server.json("/v1/plan")
    slices = [{"kind": "forward", "microbatch": 0, "stage": 0, "start_seconds": 0, "seconds": 0.1}]
    for rank in range(ranks):
        row = {"name": f"rank {rank}", "slices": slices}
        page.answer(f"/v1/plan?rank={rank}", plan | {"gantt": {"rows": [row]}})
    page.answer("/v1/node", node)
    return node


def test_rows_of_replaced_plans_are_left_out(page: Page, serve: Serve) -> None:
    server = serve(4)
    node = one_row_each(page, server, 3)
    node["ranks"][3] = {"rank": 3, "error": "it ended"}
    page.answer("/v1/node", node)
    opened(page, server)
    page.wait("!document.getElementById('gantt-card').hidden")
    names = "gantt.rows.map((row) => row.name).join()"
    page.evaluate("document.getElementById('gantt-all').click()")
    page.wait("gantt.rows.length === 3")
    assert shown(page, "gantt-gaps") == "Not all: 1 rank without a row or an answer."
    node["ranks"][2]["totals"]["replans"] += 1
    page.answer("/v1/node", node)
    page.wait("gantt.rows.length === 2")
    assert page.evaluate(names) == "rank 0,rank 1"
    said = "1 rank left out, of another plan since: “All ranks” reads again."
    assert shown(page, "gantt-gaps").endswith(said)
    # The own row is read anew by itself; the others' by hand.
    page.evaluate("document.getElementById('gantt-all').click()")
    page.wait("gantt.rows.length === 3")
    assert "another plan" not in shown(page, "gantt-gaps")
    # Another rank's rows are none of this one's.
    page.evaluate("select(1)")
    page.wait("state.plan?.rank === 1 && state.plan.state === 'ok'")
    assert page.evaluate(names) == "rank 1"
    assert page.evaluate("document.getElementById('gantt-gaps').hidden")


def test_ranks_that_are_not_asked_are_counted(page: Page, serve: Serve) -> None:
    server = serve(1)
    node = one_row_each(page, server, 300)
    node["ranks"] = [node["ranks"][0] | {"rank": rank} for rank in range(300)]
    page.answer("/v1/node", node)
    opened(page, server)
    page.wait("!document.getElementById('gantt-card').hidden")
    page.evaluate("document.getElementById('gantt-all').click()")
    page.wait("!document.getElementById('gantt-all').disabled")
    assert page.evaluate("gantt.rows.length") == 256
    # 300 less the own one and 255 that were asked.
    assert shown(page, "gantt-gaps") == "Not all: 44 ranks not asked: 256 at most."
    assert page.asked("/v1/plan") == 256
