import ctypes
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from page_serving import browser, page, serve  # noqa: F401 (fixtures)
from processes import LIBRARIES, PRESET, Finished, Program, run, tiny
from running_order import (  # noqa: F401 (hooks)
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_ignore_collect,
    pytest_runtest_logreport,
    pytest_terminal_summary,
)

MIB = 1024 * 1024
VARIANT_STEPS = 8


@dataclass(frozen=True)
class Baseline:
    """A program in stock torch, and measured by EBBTIDE=1."""

    program: Program
    plain: Finished
    measured: Finished

    def budget(self, fraction: float) -> int:
        """Plain peak less `fraction` of the activation bytes, of the rank that needs most."""
        return max(self.rank_budgets(fraction))

    def rank_budgets(self, fraction: float) -> list[int]:
        """The same of each rank, in their order."""
        return [
            report["plain_peak_bytes"] - int(fraction * report["activation_bytes"])
            for report in self.measured.reports
        ]


def measure(program: Program, folder: Path) -> Baseline:
    plain = run(program, {}, folder / "plain").succeeded()
    measured = run(program, {"EBBTIDE": "1"}, folder / "measured").succeeded()
    assert len(measured.reports) == program.ranks, measured.output
    return Baseline(program, plain, measured)


def pytest_sessionstart(session: pytest.Session) -> None:
    quick = session.config.option.markexpr == "quick"
    needed = LIBRARIES.parent / "bin" / "ebbtide" if quick else LIBRARIES / "libebbtide.so"
    if not needed.exists():
        pytest.exit(f"{needed} is missing: ./dev build {PRESET}", returncode=2)


def by_rank(budgets: list[int]) -> str:
    """As EBBTIDE_BUDGET takes them."""
    return ",".join(f"rank{rank}={budget}" for rank, budget in enumerate(budgets))


@pytest.fixture
def sockets() -> Iterator[Path]:
    """Short: a socket's name may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def tiny_baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return measure(tiny(), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_budget(tiny_baseline: Baseline) -> str:
    return str(tiny_baseline.budget(0.5))


@pytest.fixture(scope="session")
def every_variant(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Results of stock torch by variant, from one process: each variant seeds anew."""
    plain = run(tiny("all", VARIANT_STEPS), {}, tmp_path_factory.mktemp("variants")).succeeded()
    return plain.results[0]


@pytest.fixture(scope="session")
def built_for() -> str:
    library = ctypes.CDLL(str(LIBRARIES / "libebbtide.so"))
    library.ebbtide_built_for.restype = ctypes.c_char_p
    return library.ebbtide_built_for().decode()
