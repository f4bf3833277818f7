"""The functions of the package, in real trainings and without the plugin."""

import ast
import base64
import importlib.util
import inspect
import io
import json
import re
import sys
from pathlib import Path

import ebbtide
import pytest
from matplotlib import image, pyplot
from matplotlib.axes import Axes
from processes import ROOT, Finished, code, run, script

PACKAGE = ROOT / "plugin" / "python" / "ebbtide"


@pytest.fixture(scope="module")
def asked(tmp_path_factory, tiny_baseline) -> tuple[dict, dict, Finished]:
    """What a training that asks all along was told, its result, and that of stock torch."""
    folder = tmp_path_factory.mktemp("asked")
    plain = run(script("tests/e2e/asking_train.py"), {}, folder / "plain").succeeded()
    budgets = [str(tiny_baseline.budget(part)) for part in (0.3, 0.6)]
    program = script("tests/e2e/asking_train.py", "--budgets", *budgets)
    variables = {"EBBTIDE_BUDGET": budgets[0]}
    done = run(program, variables, folder / "asked").succeeded()
    told = done.results[0].pop("told")
    assert plain.results[0].pop("told") is None
    return told, plain.results[0], done


def test_numbers_stay(asked) -> None:
    _, plain, done = asked
    assert done.report["recomputed_ops"] > 0
    assert done.results[0] == plain


def test_stats_are_the_runs(asked) -> None:
    told, _, done = asked
    stats = told["stats"]
    assert (stats["mode"], stats["state"], stats["rank"]) == ("budget", "training", 0)
    assert 0 < stats["memory"]["allocated_bytes"] <= stats["memory"]["mapped_bytes"]
    assert stats["memory"]["peak_mapped_bytes"] <= stats["memory"]["budget_bytes"]
    assert 0 < stats["steps"] <= done.report["steps"]
    assert "Ebbtide, rank 0" in told["summary"]
    assert "budget" in told["summary"]


def test_a_budget_holds_from_the_step_that_was_promised(asked, tiny_baseline) -> None:
    told, _, done = asked
    lower = tiny_baseline.budget(0.6)
    change = told["change"]
    assert change["budget_bytes"] == lower
    assert change["before_bytes"] == tiny_baseline.budget(0.3)
    # It was asked for within a step: that one has its old budget yet.
    assert change["from_step"] == told["asked_in_step"] + 1
    assert done.report["budget_bytes"] == lower
    assert done.report["budget_violations"] == 0


def test_refusals_are_exceptions(asked) -> None:
    told, _, _ = asked
    assert told["unreadable"].startswith("ValueError: ")
    assert told["infeasible"].startswith("BudgetError: ")
    assert told["infeasible"].endswith(" [EB128]")
    assert told["smallest_feasible_bytes"] > 1 << 20
    assert told["too_many_steps"].startswith("ValueError: ")


# --- pictures


def cells(html: str) -> list[list[str]]:
    """Of its tables, one after the other."""
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in rows]


def drawn_in(html: str) -> tuple[int, int]:
    """Width and height of its one picture, which shows something."""
    (encoded,) = re.findall(r'<img src="data:image/png;base64,([^"]+)">', html)
    pixels = image.imread(io.BytesIO(base64.b64decode(encoded)), format="png")
    assert pixels.min() < 0.5 < pixels.max()  # dark on bright
    return pixels.shape[1], pixels.shape[0]


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    }


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    pyplot.close("all")


def test_a_plan_is_shown_as_text(asked) -> None:
    told, _, _ = asked
    plan = told["plan"]["plan"]
    assert plan["recomputed_ops"] > 0
    share = f"+{100 * plan['overhead_ratio']:.1f} %"
    assert f"  more time: {share}\n" in told["plan_text"]
    shown = cells(told["plan_html"])
    assert ["planner", plan["planner"]] in shown
    assert ["more time", share] in shown
    assert ["ops computed again", str(plan["recomputed_ops"])] in shown
    again = shown[shown.index(["computed again", "ops", "a step", "bytes freed"]) + 1 :]
    assert [row[:2] for row in again] == [
        [row["op"], str(row["ops"])] for row in told["plan"]["recomputed"]
    ]


def test_a_plan_is_drawn(asked) -> None:
    """Predicted above, measured below, each along its own time."""
    told, _, _ = asked
    width, height = drawn_in(told["plan_html"])
    assert width > 600 and height > 600
    data = told["plan"]
    predicted, measured = ebbtide.Plan(data).plot()
    assert predicted.figure is measured.figure
    assert (predicted.get_title(), measured.get_title()) == ("predicted", "measured")
    areas = [f"{area['label']} ({area['action']})" for area in data["areas"]]
    assert labels(predicted) == [*areas, "budget"]
    # Stacked they end at what is live in all: at most at the predicted peak.
    top = max(
        path.vertices[:, 1].max() for one in predicted.collections for path in one.get_paths()
    )
    assert top == pytest.approx(data["plan"]["predicted_peak_bytes"] / unit_of(predicted))
    timeline = data["timeline"]
    assert labels(measured) == ["live", "mapped", "budget"]
    for kind in ("live", "mapped"):
        seconds, held = lines(measured)[kind]
        assert seconds == timeline["seconds"]
        bytes_held = timeline[f"{kind}_bytes"]
        assert held == [count / unit_of(measured) for count in bytes_held]
    for axes in (predicted, measured):
        budget = timeline["budget_bytes"] / unit_of(axes)
        assert lines(axes)["budget"][1] == [budget, budget]
        assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > budget


def unit_of(axes: Axes) -> int:
    return {"MiB": 1 << 20, "GiB": 1 << 30}[axes.get_ylabel()]


def test_a_plan_is_drawn_where_one_says(asked) -> None:
    told, _, _ = asked
    figure, given = pyplot.subplots(1, 2)
    assert ebbtide.Plan(told["plan"]).plot(given) == tuple(given)
    assert figure.axes == list(given)
    assert all(axes.has_data() for axes in given)


def test_without_a_plan_the_step_is_drawn_alone(asked) -> None:
    told, _, _ = asked
    nothing = {"plan": None, "areas": [], "area_seconds": [], "recomputed": []}
    predicted, measured = ebbtide.Plan(told["plan"] | nothing).plot()
    assert predicted.get_title() == "predicted: no plan is in force"
    assert not predicted.collections and set(lines(predicted)) == {"budget"}
    assert set(lines(measured)) == {"live", "mapped", "budget"}
    before_all = ebbtide.Plan(told["plan"] | nothing | {"timeline": None})
    assert before_all._repr_html_() == "<p>Ebbtide: no plan is in force.</p>"
    with pytest.raises(RuntimeError, match="no plan and no recorded step"):
        before_all.plot()


def test_a_curve_is_shown_and_drawn(asked) -> None:
    told, _, _ = asked
    data = told["curve"]
    assert (data["state"], data["why"]) == ("ready", "")
    curve = ebbtide.Curve(data)
    assert len(curve) == len(data["points"]) > 2
    head, *rows = cells(told["curve_html"])
    assert head == ["budget", "step", "more time"]
    assert [row[2] for row in rows] == [
        f"+{100 * point['overhead_ratio']:.1f} %" for point in data["points"]
    ]
    assert all(" | ".join(row) in told["curve_text"] for row in rows)
    width, height = drawn_in(told["curve_html"])
    assert width > 600 and height > 300
    axes = curve.plot()
    unit = {"budget in MiB": 1 << 20, "budget in GiB": 1 << 30}[axes.get_xlabel()]
    budgets, seconds = lines(axes)["predicted"]
    assert budgets == [point["budget_bytes"] / unit for point in data["points"]]
    assert seconds == [point["step_seconds"] for point in data["points"]]
    present = data["present"]
    now = ([present["budget_bytes"] / unit], [present["step_seconds"]])
    assert lines(axes)["now"] == now
    assert labels(axes) == ["predicted", "now"]
    _, own = pyplot.subplots()
    assert curve.plot(own) is own and own.has_data()


def test_a_curve_that_is_not_there(asked) -> None:
    told, _, _ = asked
    curve = ebbtide.Curve(told["curve"] | {"state": "none", "points": [], "present": None})
    assert (repr(curve), len(curve)) == ("<ebbtide.Curve: none>", 0)
    assert curve._repr_html_() == "<p>Ebbtide: the curve is none.</p>"
    with pytest.raises(RuntimeError, match="no curve to draw: it is none"):
        curve.plot()


def test_without_matplotlib_tables_are_left(asked, monkeypatch: pytest.MonkeyPatch) -> None:
    told, _, _ = asked
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    for one, html in (
        (ebbtide.Plan(told["plan"]), told["plan_html"]),
        (ebbtide.Curve(told["curve"]), told["curve_html"]),
    ):
        assert one._repr_html_() == re.sub("<img [^>]+>", "", html)
        with pytest.raises(ImportError, match="draws with matplotlib, which is not installed"):
            one.plot()


# --- changes


def test_a_pause_is_a_step_as_in_torch_alone(asked) -> None:
    told, _, _ = asked
    assert told["paused"]["paused"] is True
    assert told["resumed"]["paused"] is False
    # Nothing is computed again from the promised step on, until it goes on.
    assert told["recomputed_while_paused"] == 0
    assert told["state_while_paused"] == "paused"


def test_another_thread_may_ask(asked) -> None:
    told, _, _ = asked
    assert told["asked_by_thread"] > 0


def test_a_trace_of_the_next_steps(asked) -> None:
    told, _, _ = asked
    trace = told["trace"]
    steps = [event for event in trace["traceEvents"] if event.get("cat") == "step"]
    assert len(steps) == 2
    assert trace["otherData"]["last_step"] == trace["otherData"]["first_step"] + 1


def test_without_the_plugin(tmp_path: Path) -> None:
    program = code(
        "import ebbtide\n"
        "print(ebbtide.stats(), ebbtide.is_active())\n"
        "print(ebbtide.memory_summary())\n"
        "for ask in (ebbtide.plan, ebbtide.curve, ebbtide.pause, ebbtide.resume, ebbtide.trace,\n"
        "            ebbtide.snapshot, lambda: ebbtide.set_budget('1GiB')):\n"
        "    try:\n"
        "        ask()\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
    )
    done = run(program, {}, tmp_path, out=False).succeeded()
    lines = done.output.splitlines()
    assert lines[0] == "{'mode': 'off'} False"
    assert lines[1] == "Ebbtide is not active in this process"
    assert len(lines) == 2 + 7
    assert all("EBBTIDE_BUDGET=<size>" in line for line in lines[2:])


def test_a_forked_child_logs_but_is_refused(tmp_path: Path) -> None:
    """What it may log always it may log there too."""
    program = code(
        "import os, torch, ebbtide\n"
        "x = torch.ones(8, requires_grad=True)\n"
        "(x * x).sum().backward()\n"
        "if os.fork() == 0:\n"
        "    print(ebbtide.stats(), ebbtide.is_active(), ebbtide.memory_summary(), flush=True)\n"
        "    try:\n"
        "        ebbtide.plan()\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(ebbtide.stats()['mode'], ebbtide.is_active(), flush=True)\n"
    )
    done = run(program, {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert "{'mode': 'off'} False Ebbtide is not active in this process\n" in done.output
    assert done.said("not active in a forked child")
    assert "measure True\n" in done.output  # the parent


# --- types


def declared(tree: ast.Module) -> dict[str, ast.stmt]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def parameters(function: ast.FunctionDef) -> list[tuple[str, str | None]]:
    arguments = function.args
    count = len(arguments.args) - len(arguments.defaults)
    defaults = [None] * count + [ast.unparse(one) for one in arguments.defaults]
    return [(one.arg, default) for one, default in zip(arguments.args, defaults, strict=True)]


def test_the_stub_is_the_module(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("ebbtide")
    assert spec is not None and spec.origin is not None
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    names = declared(stub)
    public = {name for name in vars(ebbtide) if name in ebbtide.__all__}
    assert public == set(ebbtide.__all__)
    assert public <= set(names)
    listed = next(node for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed.value) == ebbtide.__all__
    for name in sorted(public):
        there = getattr(ebbtide, name)
        if inspect.isclass(there):
            members = {n.name: n for n in names[name].body if isinstance(n, ast.FunctionDef)}
            for member, stubbed in members.items():
                given = inspect.getattr_static(there, member)
                if isinstance(given, property):
                    assert [ast.unparse(d) for d in stubbed.decorator_list] == ["property"]
                else:
                    check(stubbed, given)
            mine = {n for n in vars(there) if not n.startswith("_") and n != "data"}
            assert mine <= set(members)
        else:
            check(names[name], there)
    assert (PACKAGE / "py.typed").exists()


def check(stubbed: ast.FunctionDef, given: object) -> None:
    signature = inspect.signature(given)
    told = [
        (one.name, None if one.default is inspect.Parameter.empty else repr(one.default))
        for one in signature.parameters.values()
    ]
    assert parameters(stubbed) == told, stubbed.name


def test_stats_have_the_keys_of_the_stub(asked) -> None:
    told, _, _ = asked
    stub = declared(ast.parse((PACKAGE / "__init__.pyi").read_text()))

    def keys(name: str) -> set[str]:
        return {node.target.id for node in stub[name].body if isinstance(node, ast.AnnAssign)}

    assert set(told["stats"]) == keys("Stats")
    assert set(told["stats"]["memory"]) == keys("Memory")
    assert set(told["stats"]["totals"]) == keys("Totals")
    assert set(told["stats"]["step_seconds"]) == keys("StepSeconds")
    assert set(told["change"]) == keys("BudgetChange")
    assert set(told["paused"]) == keys("Pause")
    assert json.dumps(told["stats"])
