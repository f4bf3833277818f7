"""What `ebbtide fit` names for examples and programs of libraries, and `ebbtide prove` says then.

Ten programs: eight on one rank and on two, two on two ranks alone. A test takes minutes: a proof is
three trainings, a search some six, and each imports torch.
"""

import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import MIB
from processes import Finished, Program, run, script
from test_bad_input import REFUSED
from test_fit import Fit
from test_prove import Proof

pytestmark = pytest.mark.nightly
STEPS = 20


@dataclass(frozen=True)
class Script:
    name: str
    path: str
    arguments: str  # {} is the batch
    batch: int
    ranks: int = 1
    needs: str = ""  # a package

    def program(self, batch: int | str, steps: int) -> Program:
        arguments = self.arguments.replace("{}", str(batch)).split()
        # Lightning starts its ranks itself.
        ranks = 1 if "--devices" in arguments else self.ranks
        program = script(self.path, *arguments, "--steps", str(steps), ranks=ranks)
        return Program(program.command, self.ranks)


EXAMPLE = "examples/train_{}.py"
LIBRARY = "tests/e2e/library_train.py"
SMALL = "--layers 4 --width 96 --length 128 --batch {}"
SCRIPTS = [
    Script("gpt", EXAMPLE.format("gpt"), SMALL, 4),
    Script("gpt_2", EXAMPLE.format("gpt"), SMALL, 4, ranks=2),
    Script("cnn", EXAMPLE.format("cnn"), "--layers 4 --images 1000 --batch {}", 32),
    Script("cnn_2", EXAMPLE.format("cnn"), "--layers 4 --batch {}", 32, ranks=2),
    Script("fsdp_2", EXAMPLE.format("fsdp"), SMALL, 4, ranks=2),
    Script("pipeline_2", EXAMPLE.format("pipeline"), SMALL, 4, ranks=2),
    Script("trainer", LIBRARY, "trainer --batch {}", 16, needs="transformers"),
    Script("trainer_2", LIBRARY, "trainer --batch {}", 16, ranks=2, needs="transformers"),
    Script("lightning", LIBRARY, "lightning --batch {}", 16, needs="lightning"),
    Script("lightning_2", LIBRARY, "lightning --batch {} --devices 2", 16, 2, "lightning"),
    Script("timm", LIBRARY, "timm --batch {}", 16, needs="timm"),
    Script("timm_2", LIBRARY, "timm --batch {}", 16, ranks=2, needs="timm"),
    Script("resnet", LIBRARY, "resnet --batch {}", 8, needs="timm"),
    # Beside DDP's buckets fewer images would take less than the update does.
    Script("resnet_2", LIBRARY, "resnet --batch {}", 24, ranks=2, needs="timm"),
    Script("convnext", LIBRARY, "convnext --batch {}", 16, needs="timm"),
    Script("convnext_2", LIBRARY, "convnext --batch {}", 16, ranks=2, needs="timm"),
    Script("accelerate", LIBRARY, "accelerate --batch {}", 32, needs="accelerate"),
    Script("accelerate_2", LIBRARY, "accelerate --batch {}", 32, ranks=2, needs="accelerate"),
]


@pytest.fixture(params=SCRIPTS, ids=lambda one: one.name)
def asked(request: pytest.FixtureRequest) -> Script:
    if request.param.needs and importlib.util.find_spec(request.param.needs) is None:
        pytest.skip(f"{request.param.needs} is not installed")
    return request.param


@pytest.fixture
def fit(tmp_path: Path) -> Fit:
    folder = tmp_path / "fit"
    folder.mkdir()
    return Fit(folder)


def trained(asked: Script, batch: int, budget_bytes: int, folder: Path) -> Finished:
    variables = {"EBBTIDE_BUDGET": f"{budget_bytes // MIB}MiB"}
    return run(asked.program(batch, STEPS), variables, folder / str(batch), out=False)


def holds(done: Finished) -> bool:
    return done.status == 0 and not any(report["budget_violations"] for report in done.reports)


def test_the_smallest_budget_is_proven(asked: Script, fit: Fit, tmp_path: Path) -> None:
    told = fit.told("--", *asked.program(asked.batch, STEPS).command)
    assert told["ranks"] == asked.ranks
    smallest = told["smallest_budget_bytes"]
    proof = Proof(tmp_path)
    options = ("--steps", str(STEPS), "--budget", f"{smallest // MIB}MiB", "--keep", "kept")
    done = proof.run(*options, "--", *asked.program(asked.batch, STEPS + 1).command)
    print(f"{asked.name}: {told['plain_peak_bytes'] / MIB:.1f} MiB, {done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    line = rf"identical for {STEPS} steps; (\d+) → (\d+) MiB; .*; plain repeats itself: yes\n"
    found = re.fullmatch(line, done.stdout)
    assert found, done.stdout
    kept = sorted((tmp_path / "kept" / "budget").glob("report-*.json"))
    reports = [json.loads(one.read_text()) for one in kept]
    assert len(reports) == asked.ranks
    assert not any(report["budget_violations"] for report in reports), reports
    plain, peak = (
        max(report[name] for report in reports)
        for name in ("plain_peak_bytes", "mapped_peak_bytes")
    )
    assert (f"{plain / MIB:.0f}", f"{peak / MIB:.0f}") == found.groups()
    assert peak <= smallest < plain


def test_the_largest_batch_is_the_real_one(asked: Script, fit: Fit, tmp_path: Path) -> None:
    """It trains, and one that is more than 3 % larger does not each time: which plan a run finds
    depends on times, and some plans need a few pages less."""
    at_first = fit.told("--", *asked.program(asked.batch, STEPS).command)
    budget = int(1.4 * at_first["smallest_budget_bytes"]) // MIB * MIB
    searched = ("--budget", f"{budget // MIB}MiB", "--values", f"{asked.batch}..{16 * asked.batch}")
    told = fit.told(*searched, "--", *asked.program("{}", STEPS).command)
    largest = told["largest"]
    print(f"{asked.name}: {budget // MIB} MiB: {largest} of {asked.batch}")
    assert asked.batch < largest < 16 * asked.batch, told
    assert holds(trained(asked, largest, budget, tmp_path)), told
    larger = int(largest * 1.03) + 1
    assert not all(holds(trained(asked, larger, budget, tmp_path / str(i))) for i in range(3)), told
    assert REFUSED in larger.output or "out of memory" in larger.output, larger.output
