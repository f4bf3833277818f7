"""The functions of the package, in real trainings and without the plugin."""

import ast
import importlib.util
import inspect
import json
from pathlib import Path

import pytest
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
    assert told["smallest_feasible_bytes"] > 1 << 20
    assert told["too_many_steps"].startswith("ValueError: ")


def test_plans_and_curves_are_shown(asked) -> None:
    told, _, _ = asked
    assert told["plan"]["plan"]["recomputed_ops"] > 0
    assert "recompute share of a step" in told["plan_text"]
    assert told["plan_html"].startswith("<table>")
    assert told["curve"]["state"] in ("ready", "computing", "none")


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


def test_a_forked_child_is_refused(tmp_path: Path) -> None:
    program = code(
        "import os, torch, ebbtide\n"
        "x = torch.ones(8, requires_grad=True)\n"
        "(x * x).sum().backward()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        ebbtide.stats()\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = run(program, {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert done.said("not active in a forked child")


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
    import ebbtide

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
