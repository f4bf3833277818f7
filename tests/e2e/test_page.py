"""The page at / in a real browser, against the server with made-up ranks."""

import json
import random
import re
import signal
from contextlib import closing
from socket import gethostname
from typing import Any

import pytest
from browser import Browser, Page
from page_serving import LIVE, Serve, Server, most_rereads, opened, shown, without_node
from processes import ROOT, free_port

pytestmark = pytest.mark.quick

SOURCE = ROOT / "metrics" / "page" / "index.html"
GIB = 1024**3


# --- What it shows ------------------------------------------------------------------------------


def test_first_paint_has_every_part(page: Page, serve: Serve) -> None:
    server = serve(8)
    opened(page, server)
    painted = "performance.getEntriesByName('first-contentful-paint').length"
    page.wait(painted)
    assert [shown(page, name) for name in ("job", "host")] == ["fabricated", gethostname()]
    # Of the 8 ranks the third is paused and the sixth has done no step: 6 train.
    assert shown(page, "count") == "8 ranks · 6 training"
    assert shown(page, "title") == "Rank 0"
    parts = page.evaluate("[...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert parts == [
        "Ranks",
        "Rank 0",
        "Memory of a step",
        "Time against memory",
        "Recomputed operators",
        "Recent steps",
        "Plan",
        "Pipeline",
    ]
    # The page asks its own server alone. It reads plan and curve less often than the node.
    assert all(url.startswith((server.address, "data:")) for url in page.requests)
    assert 0 <= page.asked("/v1/plan") - 1 <= most_rereads(page)
    assert page.asked("/v1/plan") == page.asked("/v1/curve")
    assert page.console == []


def test_figures_are_the_servers(page: Page, serve: Serve) -> None:
    server = serve(1)
    opened(page, server)
    kpis = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#kpis div')]"
        ".map((one) => [...one.children].map((part) => part.textContent)).map((l) => [l[0], l]))"
    )
    # The first made-up rank has a budget of 16 GiB and no plan below 9 GiB.
    assert kpis["Budget"][1:] == ["16.0 GiB", "at least 9.00 GiB"]
    assert kpis["Recompute"][1] == "12.0 %"
    # Its plan runs 48, 40 and 8 ops again in 30, 20 and 10 ms, and frees 3, 1 and 2 GiB.
    rows = page.evaluate("[...document.querySelectorAll('#ops tr')].map((r) => r.innerText)")
    assert [row.split("\t")[1:] for row in rows[1:]] == [
        ["48", "30.0 ms", "3.00 GiB"],
        ["40", "20.0 ms", "1.00 GiB"],
        ["8", "10.0 ms", "2.00 GiB"],
        ["96", "60.0 ms", "6.00 GiB"],
    ]
    page.evaluate("document.querySelector('#ops [data-sort=freed_bytes]').click()")
    sizes = page.evaluate(
        "[...document.querySelectorAll('#ops tbody tr')].map((row) => row.lastChild.textContent)"
    )
    assert sizes == ["3.00 GiB", "2.00 GiB", "1.00 GiB"]
    assert page.console == []


def test_memory_of_a_step_by_keyboard_and_as_tables(page: Page, serve: Serve) -> None:
    server = serve(1)
    opened(page, server)
    page.evaluate("memory.charts[0].root.focus()")
    page.press("Home")
    said = page.evaluate("memory.charts[0].root.getAttribute('aria-valuetext')")
    # At the step's begin the base alone is there: 4 GiB, measured and predicted.
    assert said.startswith("At 0 ms, live 4.00 GiB, ")
    assert said.endswith("base 4.00 GiB")
    assert "budget 16.0 GiB" in said
    assert "recomputed 0 B" in said
    page.press("ArrowRight", 3)
    # 3 of 100 parts of the step's time.
    at = page.evaluate("memory.cursor / memory.model.end")
    assert abs(at - 0.03) < 1e-9
    page.press("End")
    assert page.evaluate("memory.cursor === memory.model.end")
    page.evaluate("document.querySelector('#memory-table summary').click()")
    page.wait("document.querySelectorAll('#memory-table table').length === 2")
    areas, moments = page.evaluate(
        "[...document.querySelectorAll('#memory-table table')]"
        ".map((t) => [...t.querySelectorAll('tbody tr')].map((row) => row.innerText.split('\\t')))"
    )
    plan = server.json("/v1/plan")
    assert {row[0] for row in areas} == {area["label"] for area in plan["areas"]}
    assert ["base", "base", "4.00 GiB", "4.00 GiB"] in areas
    assert len(moments) == 25
    assert moments[0][:2] == ["0 ms", "4.00 GiB"]


def test_proposal_says_what_a_budget_costs_and_how_to_set_it(page: Page, serve: Serve) -> None:
    server = serve(2)
    opened(page, server)
    page.evaluate("document.getElementById('proposal').focus()")
    page.press("Home")
    # The curve begins at 9 GiB, where the made-up plan costs 45 %; the other rank has no budget.
    assert "slowdown +45.0 %" in shown(page, "says")
    assert shown(page, "says").startswith("9.00 GiB")
    assert shown(page, "command-now") == "ebbtide budget 0 9GiB --job fabricated"
    assert shown(page, "command-next") == "EBBTIDE_BUDGET=rank0=9GiB"
    page.press("End")
    # 24 GiB is the plain peak: nothing is recomputed.
    assert "slowdown 0.0 %" in shown(page, "says")
    assert "8.00 GiB more than now" in shown(page, "says")
    assert shown(page, "command-now") == "ebbtide budget 0 24GiB --job fabricated"
    # Between two points the plan of the smaller one holds.
    page.evaluate("byId('proposal').value = 12 * 1024 ** 3 / proposal.grid + 1; choose()")
    bytes_proposed = 12 * GIB + page.evaluate("proposal.grid")
    points = server.json("/v1/curve?rank=0")["points"]
    best = [point for point in points if point["budget_bytes"] <= bytes_proposed][-1]
    assert f"slowdown +{100 * best['overhead_ratio']:.1f} %" in shown(page, "says")
    page.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    page.evaluate("document.querySelector('[data-copy=command-now]').click()")
    page.wait("document.getElementById('spoken').textContent === 'Copied.'")


def test_a_job_of_many_ranks_keeps_the_others_budgets(page: Page, serve: Serve) -> None:
    server = serve(3)
    node = server.json("/v1/node")
    for rank, budget in zip(node["ranks"], (16, 20, 20), strict=True):
        rank["memory"]["budget_bytes"] = budget * GIB
    page.answer("/v1/node", node)
    opened(page, server)
    page.evaluate("byId('proposal').value = 10 * 1024 ** 3 / proposal.grid; choose()")
    assert shown(page, "command-next") == "EBBTIDE_BUDGET=default=20GiB,rank0=10GiB"


def test_pipeline_is_there_where_the_plan_has_one(page: Page, serve: Serve) -> None:
    server = serve(8)
    opened(page, server)
    assert page.evaluate("document.getElementById('gantt-card').hidden")
    opened(page, server, "#rank=6")
    page.evaluate("location.hash = '#rank=6'")
    page.wait("!document.getElementById('gantt-card').hidden")
    page.evaluate("gantt.chart.root.focus()")
    page.press("Home")
    # Rank 0 begins with the forward pass of microbatch 0: 20 ms.
    assert shown(page, "gantt-said") == "rank 0: forward, microbatch 0, stage 0, 20.0 ms from 0 ms"
    page.press("ArrowDown")
    assert shown(page, "gantt-said").startswith("rank 1: wait, stage 1, 20.0 ms")
    page.evaluate("document.querySelector('#gantt-table summary').click()")
    page.wait("document.querySelectorAll('#gantt-table tbody tr').length === 4")
    # 4 microbatches: 10 ms again, 40 ms backward, 20 ms forward each; no wait in rank 0.
    row = page.evaluate("document.querySelector('#gantt-table tbody tr').innerText")
    assert row.split("\t")[:5] == ["rank 0", "0 ms", "40.0 ms", "160 ms", "80.0 ms"]
    assert page.console == []


def test_pipeline_of_ranks_that_know_their_own_rows(page: Page, serve: Serve) -> None:
    server = serve(3)
    plan = server.json("/v1/plan")
    slices = [{"kind": "forward", "microbatch": 0, "stage": 0, "start_seconds": 0, "seconds": 0.1}]
    for rank in range(3):
        row = {"name": f"rank {rank}", "slices": slices}
        page.answer(f"/v1/plan?rank={rank}", plan | {"gantt": {"rows": [row]}})
    opened(page, server, "#rank=1")
    page.wait("!document.getElementById('gantt-card').hidden")
    names = "gantt.rows.map((row) => row.name).join()"
    assert page.evaluate(names) == "rank 1"
    page.evaluate("document.getElementById('gantt-all').click()")
    page.wait("gantt.rows.length === 3")
    assert page.evaluate(names) == "rank 0,rank 1,rank 2"
    assert page.console == []


# --- Finding ranks ------------------------------------------------------------------------------


def many(server: Server, count: int) -> dict:
    """The server's node with as many ranks as wanted."""
    node = server.json("/v1/node")
    ranks = node["ranks"]
    node["ranks"] = [
        ranks[number % len(ranks)] | {"rank": number, "local_rank": number}
        for number in range(count)
    ]
    return node


def test_a_thousand_ranks(page: Page, serve: Serve) -> None:
    server = serve(8)
    node = many(server, 1024)
    for rank in node["ranks"]:
        rank["step_seconds"] = rank["step_seconds"] | {"median": 0.5 + rank["rank"] * 37 % 1024}
    page.answer("/v1/node", node)
    opened(page, server)
    tiles = "document.querySelectorAll('.tile:not([hidden])')"
    assert shown(page, "count").startswith("1,024 ranks")
    page.evaluate("list.focus()")
    page.press("End")
    assert shown(page, "title") == "Rank 1023"
    assert page.evaluate("list.getAttribute('aria-activedescendant')") == "rank-1023"
    assert page.evaluate("byId('rank-1023').getAttribute('aria-setsize')") == "1024"
    page.press("PageUp")
    page.press("ArrowUp")
    # What is seen, and a few more rows: never a thousand elements.
    assert page.evaluate(f"{tiles}.length") < 40
    page.evaluate("list.scrollTop = 500 * TILE_HEIGHT")
    page.wait("document.getElementById('rank-500') && !byId('rank-500').hidden")
    box = page.evaluate("JSON.stringify(byId('rank-500').getBoundingClientRect())")
    over = page.evaluate("JSON.stringify(list.getBoundingClientRect())")
    assert abs(json.loads(box)["top"] - json.loads(over)["top"]) < 1
    # 37 has an inverse modulo 1024, so all times differ.
    slowest = next(rank for rank in range(1024) if rank * 37 % 1024 == 1023)
    page.evaluate("byId('sort').value = 'time'; byId('sort').dispatchEvent(new Event('change'))")
    first = "state.shown[0].rank"
    assert page.evaluate(first) == slowest
    assert page.evaluate(f"byId('rank-{slowest}').getAttribute('aria-posinset')") == "1"
    page.evaluate("byId('order').click()")
    assert page.evaluate(first) == 0
    # The server has 8 ranks: of the others it knows no details, if the page came to ask for them.
    for line in page.console:
        rank = re.search(r"[?&]rank=(\d+)$", line["url"])
        assert "404" in line["text"] and rank and int(rank[1]) >= 8, page.console


def test_filter_and_order(page: Page, serve: Serve) -> None:
    server = serve(16)
    opened(page, server)
    wanted = "state.shown.map((rank) => rank.rank).join(' ')"

    def filtered(words: str) -> str:
        page.evaluate("byId('filter').value = ''; byId('filter').focus()")
        page.write(words)
        return page.evaluate(wanted)

    assert filtered("3") == "3"
    assert filtered("3-5") == "3 4 5"
    # Numbers are whole, words may be begun.
    assert filtered("rank 1") == "1"
    assert filtered("cuda") == "6 14"
    assert filtered("cuda:1") == ""
    assert filtered("uda") == ""
    assert filtered("PAUSED") == filtered("pau") == "2 10"
    assert filtered("over  budget") == ""  # each of them was out of memory, too, which comes first
    assert filtered("1.8") == filtered("(") == filtered("[^") == filtered("\\") == ""
    assert filtered("nothing such") == ""
    assert "No rank is like this." in shown(page, "list")
    assert filtered(" ") == " ".join(map(str, range(16)))
    # Paused (2), slow (3: 1.8 times), over the budget (4), and the same of the next eight.
    page.evaluate("byId('watch').click()")
    assert page.evaluate(wanted) == "2 3 4 10 11 12"
    assert shown(page, "watch-text") == "Only what needs a look (6)"


def test_stages_are_found_by_their_whole_numbers(page: Page, serve: Serve) -> None:
    server = serve(8)
    node = many(server, 24)
    for rank in node["ranks"]:  # the first four have none; one has two
        rank["stages"] = [] if rank["rank"] < 4 else [rank["rank"] - 4]
        if rank["rank"] == 23:
            rank["stages"].append(20)
    page.answer("/v1/node", node)
    opened(page, server)

    def filtered(words: str) -> list[int]:
        page.evaluate(f"byId('filter').value = {json.dumps(words)}")
        page.evaluate("byId('filter').dispatchEvent(new Event('input'))")
        return page.evaluate("state.shown.map((rank) => rank.rank)")

    assert filtered("stage 1") == [5]
    assert filtered("stage 10") == [14]
    assert filtered("stage 20") == [23]
    assert filtered("stage") == list(range(4, 24))


def test_what_needs_a_look_is_in_words(page: Page, serve: Serve) -> None:
    server = serve(2)
    node = server.json("/v1/node")
    for rank, times in zip(node["ranks"], (3, 1), strict=True):
        rank["totals"] = rank["totals"] | {"ooms": 0, "budget_violations": times}
    page.answer("/v1/node", node)
    opened(page, server)
    assert shown(page, "trouble") == "over budget 3 times"  # not "3x": that is a factor
    assert "over budget 1 time" in shown(page, "rank-1").split("\n")


def test_a_rank_that_does_not_answer(page: Page, serve: Serve) -> None:
    opened(page, serve(3, "--hung-rank", "1"), "#rank=1")
    assert "no answer" in shown(page, "trouble")
    # The server waits a second for its ranks: on a busy machine another one may be late, too.
    page.wait("byId('count').innerText.endsWith(' · 1 no answer')")
    assert shown(page, "memory-plot").startswith("Not available")
    # What is known to fail is not asked for.
    assert page.asked("/v1/plan") == 0
    assert page.console == []


# --- Bad input, bad servers ---------------------------------------------------------------------

EVIL = (
    "<img src=x onerror=window.hacked=1>",
    '"><script>window.hacked=1</script>',
    "javascript:window.hacked=1",
    "\u202egnp.exe",
    "a" * 100_000,
    "${window.hacked=1}",
)


def spoiled(value: Any, text: str) -> Any:
    """The same with each string replaced."""
    if isinstance(value, dict):
        return {key: spoiled(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [spoiled(one, text) for one in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_names_are_text(page: Page, serve: Serve, text: str) -> None:
    server = serve(8)
    actions = {area["action"] for area in server.json("/v1/plan?rank=6")["areas"]}
    assert actions == {"base", "kept", "encoded", "offloaded", "recomputed"}
    page.answer("/v1/node", spoiled(server.json("/v1/node"), text))
    page.answer("/v1/plan", spoiled(server.json("/v1/plan?rank=6"), text))
    page.answer("/v1/curve", spoiled(server.json("/v1/curve?rank=6"), text))
    opened(page, server, "#rank=6")
    page.wait("document.querySelector('#ops tbody tr')")
    assert page.evaluate("document.querySelector('#ops tbody td').textContent") == text[:300]
    assert shown(page, "job") == text[:300]
    foreign = "document.querySelectorAll('img, iframe, object, script[src], [onerror]').length"
    assert page.evaluate(foreign) == 0
    assert page.evaluate("document.scripts.length") == 2
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.console == []


STRANGE = (None, "text", -1, 0, 1e308, 2**63, True, [], {}, [None], {"rank": "x"}, "", [[]], 0.5)


def changed(value: Any, chance: random.Random) -> Any:
    """The same with about one part in twelve replaced by something else."""
    if chance.random() < 1 / 12:
        return chance.choice(STRANGE)
    if isinstance(value, dict):
        return {k: changed(one, chance) for k, one in value.items() if chance.random() > 1 / 40}
    if isinstance(value, list) and len(value) > 20:
        return value[: chance.randrange(len(value))] if chance.random() < 0.3 else value
    return [changed(one, chance) for one in value] if isinstance(value, list) else value


def test_answers_of_any_shape_are_drawn(page: Page, serve: Serve) -> None:
    server = serve(8)
    sound = {name: server.json(f"/v1/{name}?rank=6") for name in ("plan", "curve")}
    node = server.json("/v1/node")
    opened(page, server)
    without_node(page)
    chance = random.Random(8)
    draw = """((node, plan, curve) => {
      takeNode(object(node)); showNode(); showRank();
      state.plan = { state: "ok", value: object(plan) };
      state.curve = { state: "ok", value: object(curve) };
      showDetails(); fillOpen();
    })"""
    page.evaluate(
        "globalThis.fillOpen = () => { if (memory.model) fillMemoryTable();"
        " if (gantt.end) fillGanttTable();"
        " if (proposal.points.length) { fillCurveTable(); choose(); } }"
    )
    for _ in range(300):
        three = [json.dumps(changed(one, chance)) for one in (node, *sound.values())]
        page.evaluate(f"{draw}({', '.join(three)})")  # an exception would be raised here
        bad = page.evaluate(
            "document.body.innerText.match(/NaN|undefined|Infinity|\\[object/)?.[0]"
        )
        assert bad is None, three
        drawn = page.evaluate(
            "[...document.querySelectorAll('path')].some((one) =>"
            " /NaN|undefined|Infinity/.test(one.getAttribute('d')))"
        )
        assert not drawn, three
    assert page.console == []


def test_server_goes_and_comes_back(page: Page, serve: Serve) -> None:
    port = free_port()
    server = serve(4, "--step-seconds", "1e9", port=port)  # no figure changes meanwhile
    opened(page, server, "#rank=3")
    assert page.console == []
    budget = shown(page, "kpis")
    server.stop()
    page.wait("document.getElementById('link').dataset.state === 'away'")
    assert "does not answer" in shown(page, "spoken")
    page.wait("/ago/.test(document.getElementById('age').textContent)")
    assert shown(page, "kpis") == budget  # what was last read stays
    assert shown(page, "state") == "no answer"
    # 1, 2 and 4 s apart: the requests become rare, so does what the browser itself notes of each.
    page.wait("state.misses >= 3 && polling.next - performance.now() > 2000")
    lost = page.noted(1)
    # No page can keep a browser from noting a request that found nobody. Nothing else is noted.
    assert all(entry["source"] == "network" for entry in page.console), page.console
    assert 0 < lost <= 12
    serve(4, port=port)
    page.evaluate("document.getElementById('again').click()")
    page.wait(LIVE)
    assert shown(page, "spoken") == "The server answers."
    page.wait("state.plan?.state === 'ok'")
    assert shown(page, "title") == "Rank 3"
    assert all(entry["source"] == "network" for entry in page.console), page.console


def test_a_request_that_is_not_answered_is_given_up(browser: Browser, serve: Serve) -> None:
    """After 8 s. The pages of other tests wait on (browser.PATIENT)."""
    server = serve(1)
    with closing(browser.page(patient=False)) as page:
        opened(page, server)
        server.process.send_signal(signal.SIGSTOP)  # its connections stay, and nobody answers
        away = "byId('link').dataset.state === 'away'"
        page.wait(f"{away} && byId('state').innerText === 'no answer'")
        server.process.send_signal(signal.SIGCONT)
        page.wait(LIVE)


@pytest.mark.parametrize("status", [404, 501, 503])
def test_endpoints_that_are_not_there(page: Page, serve: Serve, status: int) -> None:
    server = serve(2)
    for path in ("/v1/plan", "/v1/curve"):
        page.answer(path, {"error": "not built in <b>yet</b>"}, status)
    opened(page, server)
    for place in ("memory-plot", "curve-plot", "ops"):
        assert shown(page, place) == "Not available: not built in <b>yet</b>"
    assert page.evaluate("document.getElementById('proposal').disabled")

    def asked(times: int) -> bool:
        """Plan and curve were asked so often, and again every 10 s unless the build lacks them."""
        more = page.asked("/v1/plan") - times
        assert page.asked("/v1/curve") == page.asked("/v1/plan")
        return 0 <= more <= (0 if status == 501 else most_rereads(page))

    before = page.evaluate("state.answered")
    page.wait(f"state.answered > {before} + 2500")
    assert asked(1)  # once is enough, while the node is asked on
    page.evaluate("list.focus()")
    page.press("ArrowDown")
    page.wait("state.plan?.state === 'missing'")
    # What the build has not got is not asked of another rank; what one rank has not got is.
    assert asked(1 if status == 501 else 2)
    assert shown(page, "memory-plot").startswith("Not available: ")
    # The browser notes each of these answers itself.
    lines = 2 * page.asked("/v1/plan")
    assert lines <= page.noted(lines) <= 2 * page.asked("/v1/plan")
    assert {entry["source"] for entry in page.console} <= {"network"}


def test_without_the_node_view_it_shows_the_rank(page: Page, serve: Serve) -> None:
    page.answer("/v1/node", {"error": "no such thing"}, 404)
    opened(page, serve(1))
    assert shown(page, "count") == "1 rank · 1 training"


def test_half_an_answer_is_none(page: Page, serve: Serve) -> None:
    server = serve(1)
    opened(page, server)
    page.answer("/v1/node", b'{"ranks": [{"rank":')
    page.wait("document.getElementById('link').dataset.state === 'away'")
    assert shown(page, "state") == "unreadable answer"
    assert page.console == []


def test_source() -> None:
    source = SOURCE.read_text()
    assert len(source.encode()) <= 94_000
    # Markup is never made of text, and nothing is fetched from elsewhere.
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in source
    addresses = set(re.findall(r"https?://[^\s'\"]+", source))
    assert addresses == {"http://www.w3.org/2000/svg"}
