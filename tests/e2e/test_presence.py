"""Where the plugin is and where it is not; its endpoint."""

import platform
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import Baseline
from processes import (
    ROOT,
    TIMEOUT_SECONDS,
    code,
    free_port,
    run,
    script,
    started,
    tiny,
    wait_for,
)

SERIES = (
    "ebbtide_memory_budget_bytes",
    "ebbtide_memory_peak_bytes",
    "ebbtide_memory_allocated_bytes",
    "ebbtide_recomputed_ops_total",
    "ebbtide_recompute_seconds_total",
    "ebbtide_budget_violations_total",
)


# --- inert ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"EBBTIDE_LOG": "debug", "EBBTIDE_REPORT": ""},
        {"EBBTIDE": "0", "EBBTIDE_BUDGTE": "1"},
        {"EBBTIDE": "0", "EBBTIDE_REPORT": "report.json"},
        {"EBBTIDE_BUDGET": "", "EBBTIDE_REPORT": ""},
    ],
    ids=["none", "only_log", "off", "off_with_report", "empty_budget"],
)
def test_inert_unless_asked_for(variables: dict[str, str], tmp_path: Path) -> None:
    program = code(
        "import torch\n"
        "torch.ones(3, requires_grad=True).sum().backward()\n"
        "assert 'libebbtide_torch' not in open('/proc/self/maps').read()\n"
    )
    done = run(program, variables, tmp_path, out=False).succeeded()
    assert done.output == ""
    assert not done.reports


@pytest.mark.parametrize(
    "name", ["EBBTIDE_REPORT", "EBBTIDE_PERFETTO", "EBBTIDE_TEXTFILE", "EBBTIDE_TRACE_DIR"]
)
def test_a_file_to_write_measures(name: str, tiny_baseline: Baseline, tmp_path: Path) -> None:
    variables = {"EBBTIDE_REPORT": "", name: str(tmp_path / "written")}
    done = run(tiny(), variables, tmp_path).succeeded()
    assert done.results == tiny_baseline.plain.results
    assert "measuring, nothing is dropped" in done.output
    written = tmp_path / "written"
    files = list(written.iterdir()) if name == "EBBTIDE_TRACE_DIR" else [written]
    assert files and all(file.stat().st_size > 0 for file in files)


def test_package_is_free_of_torch(tmp_path: Path) -> None:
    text = "import sys, ebbtide; assert 'torch' not in sys.modules; print(ebbtide.__version__)"
    done = run(code(text), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.output)


def test_import_alone_is_silent(tmp_path: Path) -> None:
    """Launchers and spawned data loaders import torch but train nothing."""
    done = run(code("import torch"), {"EBBTIDE": "1"}, tmp_path, out=False).succeeded()
    assert done.output == ""
    assert not done.reports


def test_launcher_is_no_rank(tmp_path: Path) -> None:
    """torchrun itself imports torch: it must take neither a rank's port nor its report."""
    program = script("examples/train_cnn.py", *"--layers 3 --width 8 --steps 2".split(), ranks=2)
    done = run(program, {"EBBTIDE": "1"}, tmp_path).succeeded()
    assert [report["rank"] for report in done.reports] == [0, 1]
    assert not done.said("warning.*port")


@pytest.mark.parametrize(
    ("variables", "launches"),
    [({}, True), ({"RANK": "0"}, True), ({"RANK": "0", "LOCAL_RANK": "0"}, False)],
    ids=["shell", "pod", "rank"],
)
def test_a_pod_may_number_its_launchers(
    tmp_path: Path, variables: dict[str, str], launches: bool
) -> None:
    """Kubeflow sets RANK in its pods, where torchrun runs; LOCAL_RANK is of torchrun's children."""
    text = (
        "import os, sys; from ebbtide._autoload import _is_launcher; "
        "print(_is_launcher(os.environ, sys.orig_argv, ['/usr/bin/torchrun', 'train.py']))"
    )
    done = run(code(text), variables, tmp_path, out=False).succeeded()
    assert done.output == f"{launches}\n"


def test_report_has_the_versions(tiny_baseline: Baseline) -> None:
    report = tiny_baseline.measured.report
    source = (ROOT / "plugin/python/ebbtide/__init__.py").read_text()
    assert f'__version__ = "{report["version"]}"' in source
    assert re.match(r"\d+\.\d+", report["torch_version"])
    assert (report["rank"], report["world_size"], report["steps"]) == (0, 1, 12)
    assert report["step_seconds"]["median"] > 0


def test_ample_budget_says_that_it_has_no_effect(tmp_path: Path, tiny_baseline: Baseline) -> None:
    done = run(tiny(), {"EBBTIDE_BUDGET": "8GiB"}, tmp_path).succeeded()
    assert done.said("nothing to do so far")
    assert done.report["recomputed_ops"] == 0
    assert done.report["spilled_bytes"] == 0
    assert done.results == tiny_baseline.plain.results


def test_a_budget_above_the_machines_memory_is_warned_of(tmp_path: Path) -> None:
    done = run(tiny(), {"EBBTIDE_BUDGET": "1000TiB"}, tmp_path).succeeded()
    assert done.said(r"warning: .*more than (the machine's memory|the control group)"), done.output


def test_budgets_for_nothing_that_is_there_are_named_once(tmp_path: Path) -> None:
    budgets = "rank0=8GiB,rank1=1GiB,stage0-3=1GiB,stage1=1GiB"
    done = run(tiny(), {"EBBTIDE_BUDGET": budgets}, tmp_path).succeeded()
    line = r"warning: EBBTIDE_BUDGET: (.*) \[EB\d+\]"
    assert sorted(re.findall(line, done.output)) == [
        "rank1=1GiB is for nothing that is there: the job has rank 0",
        "stage1=1GiB is for nothing that is there: the job has stage 0",
    ], done.output


# --- the endpoint ---------------------------------------------------------------------------------


def get(port: int, path: str) -> str:
    url = f"http://127.0.0.1:{port}{path}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return answer.read().decode()


def test_metrics_while_training(tmp_path: Path, tiny_budget: str) -> None:
    port = free_port()
    variables = {"EBBTIDE_BUDGET": tiny_budget, "EBBTIDE_PORT": str(port)}
    process = started(tiny(steps=2000), variables, tmp_path)
    try:
        wait_for(process, "step 8")
        text = get(port, "/metrics")
        health = get(port, "/healthz")
        with pytest.raises(urllib.error.HTTPError):
            get(port, "/nothing")
    finally:
        process.kill()
        process.communicate()
    assert health.strip() != ""
    values = dict(re.findall(r"^(ebbtide_\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE))
    assert all(series in values for series in SERIES), text
    assert float(values["ebbtide_memory_budget_bytes"]) == float(tiny_budget)
    assert 0 < float(values["ebbtide_memory_peak_bytes"]) <= float(tiny_budget)
    assert float(values["ebbtide_budget_violations_total"]) == 0
    if promtool := shutil.which("promtool"):
        check = [promtool, "check", "metrics"]
        checked = subprocess.run(check, input=text, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


def test_busy_port_is_a_warning(tmp_path: Path, tiny_baseline: Baseline) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run(tiny(), {"EBBTIDE": "1", "EBBTIDE_PORT": port}, tmp_path).succeeded()
    assert done.said(f"warning.*{port}")
    assert done.results == tiny_baseline.plain.results


@pytest.mark.skipif(platform.machine() != "x86_64", reason="socket() has another number")
def test_no_socket_is_allowed(
    tmp_path: Path, tiny_budget: str, tiny_baseline: Baseline, sockets: Path
) -> None:
    program = script("tests/e2e/without_sockets.py", *tiny().command[1:])
    variables = {"EBBTIDE_BUDGET": tiny_budget, "EBBTIDE_SOCKET_DIR": str(sockets)}
    done = run(program, variables, tmp_path).succeeded()
    assert done.results == tiny_baseline.plain.results
    assert "no endpoint" in done.output
    warnings = [line for line in done.output.splitlines() if "warning" in line]
    assert len(warnings) == 1 and warnings[0].count("Operation not permitted") == 2, done.output
    assert not list(sockets.iterdir())
