"""Tests in another order each time, file by file: none may depend on what ran before it. What fails
is named at once."""

import os
import random
import secrets
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order", type=int, help="the number of an order, as a run has printed it")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.option.order = config.workerinput["order"]
    elif config.option.order is None:
        config.option.order = int(os.environ.get("TEST_ORDER") or secrets.randbelow(1_000_000))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of xdist: all of its processes have one order."""
    node.workerinput["order"] = node.config.option.order


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With -m quick: files that have no such test may import torch."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    return "mark.quick" not in collection_path.read_text() or None


@pytest.hookimpl(tryfirst=True)  # pytest then gathers again what shares a module's fixture
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = random.Random(config.option.order)
    groups = list(files.values())
    order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    items[:] = [item for group in groups for item in group]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """At once: what else a run has to say comes at its end, if it is not stopped before."""
    if report.failed:
        print(f"\nfailed: {report.nodeid} ({report.when})", flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    order = terminalreporter.config.option.order
    terminalreporter.write_line(f"order of the tests: --order {order} repeats it")
