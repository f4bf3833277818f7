"""The page for keyboards, screen readers and all eyes."""

import json
import re
from itertools import combinations

import pytest
from browser import Page
from page_checks import contrast, difference, nameless, simulated, structure
from page_serving import Serve, opened, shown, without_node

pytestmark = pytest.mark.quick


def test_keyboard_reaches_everything(page: Page, serve: Serve) -> None:
    opened(page, serve(4), "#rank=0")
    without_node(page)  # a new element would have no number
    stops = 'a[href], button, input, select, summary, [tabindex="0"]'
    wanted = page.evaluate(
        f"[...document.querySelectorAll({json.dumps(stops)})].filter((one) =>"
        " !one.disabled && one.checkVisibility({ visibilityProperty: true }))"
        ".map((one, at) => one.dataset.stop = at).length"
    )
    seen, bare = [], []
    for _ in range(wanted + 5):
        page.press("Tab")
        stop = page.evaluate("document.activeElement.dataset.stop ?? null")
        if stop is None:
            break
        seen.append(int(stop))
        style = "getComputedStyle(document.activeElement)"
        if page.evaluate(f"{style}.outlineStyle") in ("none", "") and stop != "0":
            bare.append(page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
    assert seen == list(range(wanted))  # in the order of the document, none left out, no trap
    assert bare == []
    page.evaluate("list.focus()")
    page.press("ArrowDown", 2)
    assert shown(page, "title") == "Rank 2"
    assert page.evaluate("location.hash") == "#rank=2"
    assert page.evaluate("byId('rank-2').getAttribute('aria-selected')") == "true"
    assert page.evaluate("document.querySelectorAll('[aria-selected=true]').length") == 1
    page.press("Home")
    assert shown(page, "title") == "Rank 0"


def test_roles_and_names(page: Page, serve: Serve) -> None:
    opened(page, serve(8), "#rank=6")
    page.wait("!document.getElementById('gantt-card').hidden")
    assert structure(page) == []
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
    for role, count in {"banner": 1, "main": 1, "listbox": 1, "search": 1}.items():
        assert roles.count(role) == count, role
    assert nameless(nodes) == []
    options = [node["name"]["value"] for node in nodes if node["role"]["value"] == "option"]
    assert any(
        re.match(r"rank 0, training, live .* GiB, peak .*, budget 16\.0 GiB", o) for o in options
    )


def test_the_documents_order_is_the_lists(page: Page, serve: Serve) -> None:
    opened(page, serve(64))
    tiles = "[...room.children].filter((tile) => !tile.hidden).map((tile) => tile.rankData.rank)"
    order_now = "state.shown.map((rank) => rank.rank)"

    def in_order() -> list[int]:
        # One call reads all three: the next answer may bring another order.
        drawn, order, seen = page.evaluate(f"[{tiles}, {order_now}, view.tiles.size]")
        at = order.index(drawn[0])
        assert drawn == order[at : at + len(drawn)]
        assert len(drawn) == seen
        return drawn

    assert in_order()[0] == 0
    # Tiles that left are used again below, then above, and where the order is another one.
    for top in (5.5, 30, 29, 28, 3, 60, 0):
        page.evaluate(f"list.scrollTop = {top} * TILE_HEIGHT; drawList()")
        in_order()
    for key in ("time", "fill", "rank"):
        page.evaluate(
            f"byId('sort').value = '{key}'; byId('sort').dispatchEvent(new Event('change'))"
        )
        in_order()
    for words, ranks in (("paused", list(range(2, 64, 8))), ("0-3", [0, 1, 2, 3])):
        page.evaluate(f"byId('filter').value = '{words}'")
        page.evaluate("byId('filter').dispatchEvent(new Event('input'))")
        assert in_order() == ranks


def test_the_filter_says_how_many_remain(page: Page, serve: Serve) -> None:
    opened(page, serve(16))
    assert page.evaluate("byId('spoken').getAttribute('role')") == "status"  # a live region
    page.evaluate("byId('filter').focus()")
    page.write("paused")
    page.wait("byId('spoken').textContent === '2 of 16 ranks shown.'")
    page.evaluate("byId('filter').value = ''; byId('filter').dispatchEvent(new Event('input'))")
    page.wait("byId('spoken').textContent === '16 of 16 ranks shown.'")
    page.evaluate("byId('watch').click()")
    page.wait("byId('spoken').textContent === '6 of 16 ranks shown.'")


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(page: Page, serve: Serve, dark: bool) -> None:
    page.dark(dark)
    opened(page, serve(8), "#rank=6")
    page.evaluate("document.querySelectorAll('summary').forEach((one) => one.click())")
    page.wait("document.querySelectorAll('#gantt-table tbody tr').length === 4")
    assert contrast(page) == []


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_when_the_server_is_away(page: Page, serve: Serve, dark: bool) -> None:
    page.dark(dark)
    server = serve(8)
    opened(page, server, "#rank=6")
    page.wait("!document.getElementById('gantt-card').hidden")
    server.stop()
    page.wait("document.body.classList.contains('away')")
    assert "What was last read stays." in shown(page, "stale")
    assert contrast(page) == []
    edge = "getComputedStyle(document.querySelector('.card')).borderTopStyle"
    assert page.evaluate(edge) == "dashed"  # seen, too


@pytest.mark.parametrize("dark", [False, True])
def test_colours_differ_for_everyone(page: Page, serve: Serve, dark: bool) -> None:
    page.dark(dark)
    opened(page, serve(1))
    names = ("base", "kept", "encoded", "offloaded", "recomputed")
    values = page.evaluate(
        f"{json.dumps(names)}.map((name) =>"
        " getComputedStyle(document.documentElement).getPropertyValue('--' + name))"
    )
    # In CIE Lab two patches that lie side by side are told apart at once from about 10 on.
    for sight in ("all", "protanopia", "deuteranopia", "tritanopia"):
        for one, other in combinations(zip(names, values, strict=True), 2):
            apart = difference(simulated(one[1], sight), simulated(other[1], sight))
            assert apart > 20, (sight, one, other)


def test_dark_is_the_systems_until_chosen(page: Page, serve: Serve) -> None:
    server = serve(1)
    page.dark(True)
    opened(page, server)
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.dark(False)
    page.wait(f"{background} !== {json.dumps(dark)}")
    light = page.evaluate(background)
    assert shown(page, "theme").startswith("Dark")
    page.evaluate("byId('theme').click()")
    assert page.evaluate(background) == dark
    opened(page, server)  # the choice stays
    assert page.evaluate(background) == dark
    page.evaluate("byId('theme').click()")
    assert page.evaluate(background) == light
    page.evaluate("localStorage.clear()")


def test_reduced_motion(page: Page, serve: Serve) -> None:
    opened(page, serve(1))
    moves = "getComputedStyle(document.querySelector('.bar .live')).transitionDuration"
    assert page.evaluate(moves) == "0.25s"
    page.dark(False, reduced_motion=True)
    page.wait(f"{moves} === '0s'")


UNTOLD = "window.ResizeObserver = class { observe() {} };"


@pytest.mark.parametrize("told", [True, False], ids=["redrawn", "not_yet_redrawn"])
def test_narrow_windows_scroll_one_way(page: Page, serve: Serve, told: bool) -> None:
    if not told:  # as in a slow browser's frame, before the page hears of its size
        page.call("Page.addScriptToEvaluateOnNewDocument", source=UNTOLD)
    opened(page, serve(8), "#rank=6")
    for width in (320, 480, 760, 1000, 1180, 2560):
        page.resize(width, 800)
        page.wait(f"innerWidth === {width}")
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= width, (width, wide)


LAYOUT_SHIFT = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def test_nothing_moves_when_answers_come(page: Page, serve: Serve) -> None:
    page.call("Page.addScriptToEvaluateOnNewDocument", source=LAYOUT_SHIFT)
    opened(page, serve(8))
    before = page.evaluate("state.answered")
    page.wait(f"state.answered > {before} + 1500")  # two more looks at the node
    # The sum that browsers report; below 0.1 counts as good.
    assert page.evaluate("window.shifted") < 0.01
