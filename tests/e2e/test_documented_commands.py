"""Each command of README.md, its neighbours and docs/ is run here, is run by another test, or has
a reason.

A command that is new in a document needs an entry in HOW.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented_commands import (
    COMMANDS_IN,
    OTHER_LANGUAGES,
    Block,
    Elsewhere,
    NotRun,
    Place,
    Run,
    blocks,
    run_block,
)
from warm_interpreter import COLD

HOURS = NotRun("a benchmark: minutes to hours; each is run before its figures are written down")
TESTS = NotRun("it is what runs this test")
PUBLISHED = NotRun("needs published graphs, which are not in the repository")
GPU = NotRun("needs a GPU machine")
REMOTE = NotRun("needs another machine")

WHEEL = Elsewhere("test_packaging.py::test_it_trains_beside_torch_alone")
CHECKOUT = Elsewhere("test_packaging.py::test_a_checkout_is_installed_into_a_fresh_environment")

ONE_RANK = {"--nproc-per-node 8": "--nproc-per-node 1"}
TOP_ONCE = {"ebbtide top": "ebbtide top --once"}
RANKS = r"rank +state"

HOW: dict[str, Run | Elsewhere | NotRun] = {
    # README.md
    "EBBTIDE_BUDGET=30GiB torchrun --nproc-per-node 8 train.py": Run(
        r"budget 30\.0", instead=ONE_RANK, with_torch=True
    ),
    "EBBTIDE_BUDGET=auto python train.py": Run(
        r"\(auto, as the only rank here\)", with_torch=True, in_earnest=True
    ),
    "./dev demo": NotRun("installs and builds from nothing, then trains what test_examples trains"),
    "EBBTIDE_BUDGET=auto .venv/bin/python train.py": Run(
        r"\(auto, as the only rank here\)", with_torch=True
    ),
    "EBBTIDE=1 .venv/bin/python train.py": Run(r"ended after 24 steps", with_torch=True),
    "EBBTIDE_BUDGET=80% EBBTIDE_REPORT=run-{rank}.json .venv/bin/torchrun --nproc-per-node 2 "
    "train.py": Run("ebbtide rank 1", writes=("run-0.json", "run-1.json"), with_torch=True),
    "build/release/bin/ebbtide prove --budget 2GiB -- .venv/bin/python train.py": Run(
        "identical for 20 steps", instead={"2GiB": "6MiB"}, with_torch=True
    ),
    "build/release/bin/ebbtide fit --budget 2GiB -- .venv/bin/python train.py": Run(
        "fits 2GiB", with_torch=True
    ),
    "build/release/bin/ebbtide top": Run(RANKS, instead=TOP_ONCE),
    "pip install .": CHECKOUT,
    "python -m build --wheel": Elsewhere(
        "test_packaging.py::test_build_makes_the_wheel_that_pip_makes"
    ),
    "pip install dist/ebbtide-*+torch2.11-*.whl": WHEEL,
    # docs/install.md
    "pip install ebbtide-0.1.0+torch2.11-py3-none-linux_x86_64.whl": WHEEL,
    "EBBTIDE=1 python train.py": Run(r"ended after 24 steps", with_torch=True),
    "uv pip install .": CHECKOUT,
    "apt-get install --no-install-recommends g++ cmake ninja-build libboost1.81-dev "
    "prometheus-cpp-dev nlohmann-json3-dev libfmt-dev libcli11-dev libtomlplusplus-dev zlib1g-dev "
    "libncurses-dev": NotRun("changes the system; ./dev setup installs these packages"),
    "build/release/bin/ebbtide budget 0 24GiB": Run(
        r"rank 0: budget 12\.00 GiB", instead={"24GiB": "12GiB --job port-29500"}
    ),
    "LD_PRELOAD=$PWD/build/release/lib/libebbtide.so EBBTIDE_BUDGET=4GiB ./a_libtorch_program": Run(
        r"budget 4\.0",
        instead={"_program": "_program --layers 2 --width 24 --batch 64 --steps 8"},
        with_torch=True,
    ),
    # docs/command_line.md
    "python -m ebbtide top": Run(RANKS, instead=TOP_ONCE, with_torch=True),
    "ebbtide fit -- python train.py": Elsewhere("test_fit.py::test_the_smallest_budget_trains"),
    "ebbtide fit --budget 24GiB -- torchrun --nproc-per-node 8 train.py": Run(
        "fits 24GiB", instead=ONE_RANK, with_torch=True
    ),
    "ebbtide fit --budget 24GiB --values 8..64 -- python train.py --batch-size {}": Elsewhere(
        "test_fit.py::test_a_range_is_searched_for_the_real_largest"
    ),
    "cmake --install build/release --component cli --prefix ~/.local": Run(
        writes=(".local/bin/ebbtide", ".local/share/man/man1/ebbtide.1")
    ),
    "ebbtide status": Run(r"16\.00 GiB"),
    "ebbtide top": Run(RANKS, instead=TOP_ONCE),
    "ebbtide status --json": Run('"job_id": "port-29500"'),
    "ebbtide plan --rank 0": Run("rank 0: in force from step"),
    "ebbtide curve --rank 0": Run("rank 0: predicted for 32 budgets"),
    "ebbtide top --endpoint node1:9464 --endpoint node2:9464": Run(
        "2 nodes  10 ranks",
        instead={
            **TOP_ONCE,
            "node1:9464": "localhost:{port}",
            "node2:9464": "127.0.0.1:{port}",
        },
    ),
    "ebbtide budget 3 28GiB": Run(r"rank 3: budget 28\.00 GiB"),
    "ebbtide budget all -50%": Run("rank 0: budget "),
    "ebbtide budget 3 none": Run("rank 3: budget none"),
    "ebbtide prove --budget 80% -- python train.py": Elsewhere(
        "test_prove.py::test_a_training_is_the_same_under_a_budget"
    ),
    "ebbtide prove --budget 24GiB --steps 40 -- torchrun --nproc-per-node 8 train.py": Elsewhere(
        "test_prove.py::test_so_is_one_of_two_ranks"
    ),
    "EBBTIDE_REPORT=run-{rank}.json torchrun --nproc-per-node 8 train.py": Run(
        instead=ONE_RANK, writes=("run-0.json",), with_torch=True
    ),
    "ebbtide report run-*.json --out run.html": Run(writes=("run.html",)),
    "ebbtide doctor": Run("ok +torch", status=(0, 1), with_torch=True),
    'eval "$(ebbtide completion bash)"': Run(),
    "ebbtide man | man -l -": Run("EBBTIDE_SOCKET_DIR", needs="man"),
    # docs/configuration.md
    "EBBTIDE_BUDGET=24GiB EBBTIDE_REPORT=run-{rank}.json torchrun --nproc-per-node 2 train.py": Run(
        r"budget 24\.0", writes=("run-0.json", "run-1.json"), with_torch=True
    ),
    "EBBTIDE_BUDGET=-50% python train.py": Run(
        r"the budget -50% is [\d.]+ MiB from step \d+ on: .* \[EB61\]", with_torch=True
    ),
    'EBBTIDE_BUDGET="default=80%,rank0=24GiB,rank8-15=20GiB,stage0=70GiB" torchrun train.py': Run(
        r"budget 24\.0", with_torch=True
    ),
    # docs/control.md
    "S=${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/ebbtide}; S=${S:-/tmp/ebbtide-$(id -u)}": Run(),
    "curl --unix-socket $S/port-29500/rank-0.sock localhost/v1/status": Run('"rank": ?0'),
    "curl --unix-socket $S/port-29500/rank-0.sock localhost/v1/budget "
    """-d '{"budget": "24GiB"}'""": Run('"from_step"', instead={"24GiB": "12GiB"}),
    """curl --unix-socket $S/job/rank-0.sock localhost/v1/budget -d '{"budget": "24GiB"}'""": (
        Elsewhere("test_control.py::test_twenty_changes_both_ways")
    ),
    # docs/gpu.md
    "build/release/emulated_gpu/run .venv/bin/python train.py": Elsewhere(
        "test_emulated_gpu.py::test_torch_alone_computes_what_a_cpu_does"
    ),
    "EMULATED_GPU_MODE=clock EMULATED_GPU_MIB=81559 EMULATED_GPU_CONTEXT_MIB=527 "
    "build/release/emulated_gpu/run .venv/bin/python train.py": Elsewhere(
        "test_virtual_clock.py::test_a_step_of_real_size_repeats_its_virtual_time"
    ),
    "EMULATED_GPU_DEVICES=2 build/release/emulated_gpu/run .venv/bin/torchrun --nproc-per-node 2 "
    "train.py": Elsewhere("test_emulated_nccl.py::test_same_bits_in_a_budget"),
    "./dev gpu-pack": GPU,
    './dev gpu-test --out "$RESULTS" --minutes 9': GPU,
    # docs/metrics.md
    "EBBTIDE_BUDGET=80% torchrun --nproc-per-node 2 train.py": Run(
        "ebbtide rank 1", with_torch=True
    ),
    "curl localhost:9464/metrics": Run("ebbtide_memory_budget_bytes", instead={"9464": "{port}"}),
    "prometheus --config.file=dashboards/prometheus.yml": Elsewhere(
        "test_dashboards.py::test_prometheus_is_content"
    ),
    "EBBTIDE_TEXTFILE=/var/lib/node_exporter/ebbtide-{rank}.prom EBBTIDE_BUDGET=80% torchrun "
    "--nproc-per-node 2 train.py": Run(
        instead={"/var/lib/node_exporter/": "", "--nproc-per-node 2": "--nproc-per-node 1"},
        writes=("ebbtide-0.prom",),
        with_torch=True,
    ),
    "node_exporter --collector.textfile.directory=/var/lib/node_exporter": Elsewhere(
        "test_dashboards.py::test_the_file_has_the_last_word"
    ),
    # docs/page.md
    "EBBTIDE_BUDGET=24GiB torchrun --nproc-per-node 8 train.py": Elsewhere(
        "test_page_training.py::test_a_training_from_its_first_plan_to_its_end"
    ),
    "ssh -L 9464:127.0.0.1:9464 node-17": REMOTE,
    # docs/pipelines.md
    'EBBTIDE_BUDGET="default=30GiB,rank0=24GiB" torchrun --nproc-per-node 4 '
    "examples/train_pipeline.py": Run(
        r"budget 24\.0",
        instead={
            "--nproc-per-node 4": "--nproc-per-node 2",
            ".py": ".py --layers 2 --width 48 --heads 2 --length 32 --batch 2 --steps 3",
        },
        with_torch=True,
    ),
    "build/release/bin/ebbtide simulate examples/jobs/gpt-1024.toml --svg step.svg "
    "--trace step.json": Run(
        r"planned +\d", instead={"--svg": "--deadline 2 --svg"}, writes=("step.svg", "step.json")
    ),
    # docs/placement.md
    "build/release/bin/ebbtide place buffers.csv --out placed.csv --svg placed.svg": Run(
        r"height found \(optimal\) is 40 ", writes=("placed.csv", "placed.svg")
    ),
    "build/release/bin/ebbtide place buffers.csv --capacity 24MiB --deadline 5 --threads 2": Run(
        "feasible"
    ),
    "EBBTIDE_PUBLISHED_DATA=FOLDER ./dev bench placement": PUBLISHED,
    # docs/planners.md, docs/planning.md
    "./dev bench planners --deadline 3": HOURS,
    "EBBTIDE=1 EBBTIDE_TRACE_DIR=traces .venv/bin/python train.py": Run(
        writes=("traces/trace-0-2.json",), with_torch=True
    ),
    "build/release/bin/ebbtide curve traces/trace-0-2.json --svg curve.svg": Run(
        writes=("curve.svg",)
    ),
    "build/release/bin/ebbtide plan traces/trace-0-2.json --budget 60% --out schedule.json": Run(
        "feasible, peak", writes=("schedule.json",)
    ),
    "build/release/bin/ebbtide check traces/trace-0-2.json schedule.json": Run("peak"),
    "EBBTIDE_PUBLISHED_DATA=FOLDER ./dev test": PUBLISHED,
    "EBBTIDE_PUBLISHED_DATA=FOLDER ./dev bench scheduler": PUBLISHED,
    # CONTRIBUTING.md, docs/contributing.md, docs/results.md, docs/testing.md
    "git clone ADDRESS ebbtide && cd ebbtide": NotRun("it fetches what is tested here"),
    "./dev build": NotRun("it builds what is tested here"),
    "./dev lint --quick": NotRun("it looks at sources, with tools that a test needs not"),
    "./dev help": Run(r"usage: \./dev <verb>"),
    "./dev bench demo": HOURS,
    "./dev bench demo --examples gpt --fractions 0.5": HOURS,
    "./dev bench zoo --steps 16": HOURS,
    "./dev bench allocator": HOURS,
    "./dev bench emulated-gpu --json FILE": HOURS,
    "./dev test --quick": TESTS,
    "./dev test": TESTS,
    "./dev test --all": TESTS,
    # docs/tracing.md
    "EBBTIDE_PERFETTO=run-{rank}.json EBBTIDE_BUDGET=80% torchrun --nproc-per-node 2 train.py": Run(
        instead={"--nproc-per-node 2": "--nproc-per-node 1"},
        writes=("run-0.json",),
        with_torch=True,
    ),
    "ebbtide trace --steps 3": Run("rank 0: .*written after 3 steps"),
    "jq -s '.[0].traceEvents += (map(.traceEvents) | .[1:] | add) | .[0]' "
    "profile.json run-0.json >both.json": Run(writes=("both.json",), needs="jq"),
    "python -m torch.cuda._memory_viz trace_plot step.pickle -o step.html": Run(
        instead={"python -m": "EBBTIDE=1 python snapshot.py && python -m"},
        writes=("step.html",),
        with_torch=True,
    ),
    "python -m torch.cuda._memory_viz stats step.pickle": Run("allocated|segment", with_torch=True),
}

DOCUMENTED = blocks()
SHELL = [block for block in DOCUMENTED if block.commands]


def run_of(block: Block) -> list[tuple[str, Run]]:
    found = [(command, HOW.get(command)) for command in block.commands]
    return [(command, how) for command, how in found if isinstance(how, Run)]


def with_marks(block: Block) -> object:
    trains = any(how.with_torch for _, how in run_of(block))
    return pytest.param(block, id=block.place, marks=() if trains else pytest.mark.quick)


@pytest.fixture
def place(block: Block, tmp_path: Path) -> Iterator[Place]:
    runs = [how for _, how in run_of(block)]
    forked = any(how.with_torch for how in runs) and not any(how.in_earnest for how in runs)
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as sockets:
        made = Place(tmp_path, Path(sockets))
        made.make(forked and not COLD)
        yield made


@pytest.mark.quick
def test_each_fence_names_its_language() -> None:
    """So no command is taken for output."""
    known = (*COMMANDS_IN, *OTHER_LANGUAGES)
    assert [block.place for block in DOCUMENTED if block.language not in known] == []


@pytest.mark.quick
def test_each_command_is_run_or_has_a_reason() -> None:
    documented = {command: block.place for block in SHELL for command in block.commands}
    new = {place: command for command, place in documented.items() if command not in HOW}
    assert not new, "neither run nor given a reason"
    gone = [command for command in HOW if command not in documented]
    assert not gone, "in no document any more"


@pytest.mark.quick
def test_tests_that_run_commands_exist() -> None:
    named = [how for how in HOW.values() if isinstance(how, Elsewhere)]
    assert [how.test for how in named if not how.exists] == []


# README's block takes over 20 s where each program imports torch (--all): a proof is three runs, a
# fit one, of 24 small steps each.
@pytest.mark.parametrize("block", [with_marks(block) for block in SHELL if run_of(block)])
def test_a_block_runs_as_it_stands(block: Block, place: Place) -> None:
    commands = run_of(block)
    missing = {how.needs for _, how in commands if how.needs and not shutil.which(how.needs)}
    commands = [(command, how) for command, how in commands if how.needs not in missing]
    if not commands:
        pytest.skip(f"{', '.join(sorted(missing))} is not installed")
    process, port = place.serve("port-29500", 5)
    try:
        run_block(commands, place, port)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
