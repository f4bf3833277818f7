"""The commands in the fenced blocks of README.md, its neighbours and docs/, and how a test runs
them."""

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from processes import LIBRARIES, ROOT, STARTED_WITH, TIMEOUT_SECONDS, free_port
from warm_interpreter import python

COMMANDS_IN = ("bash", "console")  # languages of fences; in a console after "$ "
OTHER_LANGUAGES = ("text", "json", "python", "cpp", "toml")
FENCE = re.compile(r" *```(.*)")
COMMENT = re.compile(r"\s+# .*")
# Verbs that ask ranks. By default a rank has 5 s to answer: too few on a busy machine.
ASKING = re.compile(r"\bebbtide (?:top|status|(?:plan|curve)(?= --rank))(?= |$)")
TESTS = Path(__file__).parent


@dataclass(frozen=True)
class Block:
    place: str  # "docs/planning.md:5", the fence
    language: str
    lines: tuple[str, ...]

    @property
    def commands(self) -> list[str]:
        """Without their comments."""
        if self.language not in COMMANDS_IN:
            return []
        lines = [COMMENT.sub("", line).strip() for line in self.lines]
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        joined = "\n".join(line for line in lines if line).replace("\\\n", " ")
        return joined.splitlines()


def blocks() -> list[Block]:
    found = []
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        lines, begin = path.read_text().splitlines(), None
        for number, line in enumerate(lines):
            if not (fence := FENCE.fullmatch(line)):
                continue
            if begin is None:
                begin, language = number, fence[1]
                continue
            place = f"{path.relative_to(ROOT)}:{begin + 1}"
            found.append(Block(place, language, tuple(lines[begin + 1 : number])))
            begin = None
        assert begin is None, f"{path}: the fence of line {begin} is not closed"
    return found


# --- what is done with a command ------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """In a folder with what the page speaks of, after the commands before it in its block.

    `instead`: what is too large for a test, or is of another machine, and what is run instead.
    {port} in it is that of the made-up ranks. `in_earnest`: its block imports torch in a reader's
    interpreter; programs of the other blocks are forked from one that has torch.
    """

    says: str = ""  # a pattern in what it prints
    status: tuple[int, ...] = (0,)
    instead: dict[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()  # files, none of them empty
    with_torch: bool = False
    in_earnest: bool = False
    needs: str = ""  # a program that is not everywhere: where it is missing this is not run


@dataclass(frozen=True)
class Elsewhere:
    """Another test runs it, or what it does: `test` is "test_prove.py::test_…"."""

    test: str

    @property
    def exists(self) -> bool:
        name, _, function = self.test.partition("::")
        if not (TESTS / name).exists():
            return False
        tree = ast.parse((TESTS / name).read_text())
        return any(isinstance(one, ast.FunctionDef) and one.name == function for one in tree.body)


@dataclass(frozen=True)
class NotRun:
    reason: str


# --- running --------------------------------------------------------------------------------------

TRAIN = """
import torch

torch.manual_seed(1)
layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(24):
    net(torch.ones(2048, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SNAPSHOT = "import ebbtide, torch\nebbtide.snapshot('step.pickle')\n"


@dataclass(frozen=True)
class Place:
    """A folder as a reader has it: the checkout's parts, a script, a job of made-up ranks."""

    folder: Path
    sockets: Path  # short: XDG_RUNTIME_DIR

    def make(self, forked: bool) -> None:
        (self.folder / "build").mkdir()
        links = {"build/release": LIBRARIES.parent}
        if forked:
            self.make_python(self.folder / ".venv" / "bin")
        else:
            links[".venv"] = Path(sys.prefix)
        links |= {name: ROOT / name for name in ("dev", "examples", "dashboards")}
        links["a_libtorch_program"] = LIBRARIES.parent / "bin" / "train_cpp"
        for name, target in links.items():
            (self.folder / name).symlink_to(target)
        (self.folder / "train.py").write_text(TRAIN)
        (self.folder / "snapshot.py").write_text(SNAPSHOT + TRAIN)
        shutil.copy(ROOT / "tests" / "cli" / "data" / "buffers.csv", self.folder)
        shutil.copy(ROOT / "examples" / "jobs" / "gpt-8-1f1b.toml", self.folder)
        for name, events in {"profile": ["a"], "run-0": ["b", "c"]}.items():
            trace = {"traceEvents": events, "baseTimeNanoseconds": 1}
            (self.folder / f"{name}.json").write_text(json.dumps(trace))

    def make_python(self, folder: Path) -> None:
        """What stands for the interpreter, and torchrun as it is but for who runs it."""
        folder.mkdir(parents=True)
        (folder / "python").symlink_to(python())
        _, _, text = Path(sys.executable).with_name("torchrun").read_text().partition("\n")
        (folder / "torchrun").write_text(f"#!{python()}\n{text}")
        (folder / "torchrun").chmod(0o700)

    def serve(self, job: str, ranks: int) -> tuple[subprocess.Popen, int]:
        """The process, and the port of the node that it is."""
        folder = self.sockets / "ebbtide"
        folder.mkdir(mode=0o700, exist_ok=True)
        program = LIBRARIES.parent / "tests" / "metrics" / "metrics_serve"
        command = [program, "--ranks", str(ranks), "--socket-dir", folder, "--job-id", job]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return process, json.loads(process.stdout.readline())["port"]

    @property
    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in STARTED_WITH.items() if "EBBTIDE" not in name}
        own = self.folder / ".venv" / "bin"
        folders = (LIBRARIES.parent / "bin", own, Path(sys.executable).parent)
        programs = [str(folder) for folder in folders]
        return kept | {
            "PATH": ":".join([*programs, kept["PATH"]]),
            "XDG_RUNTIME_DIR": str(self.sockets),
            "HOME": str(self.folder),
            "TMPDIR": str(self.sockets),
            "OMP_NUM_THREADS": "1",
            "LC_ALL": "C.UTF-8",
            "PET_STANDALONE": "1",  # torchrun's: no port that another test's job has
            "EBBTIDE_PORT": str(free_port(2)),
        }


def run_block(commands: list[tuple[str, Run]], place: Place, port: int) -> None:
    """In one shell, as they are typed there. Each is asserted on by itself."""
    script = []
    for number, (command, how) in enumerate(commands):
        for old, new in how.instead.items():
            assert old in command, f"{command}: has no {old}"
            command = command.replace(old, new.format(port=port))
        command = ASKING.sub(r"\g<0> --timeout 120", command)
        script += [f"{{ {command}\n}} >out-{number} 2>&1"]  # in this shell: it may set variables
        script += [f"echo $? >status-{number}"]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=place.folder,
        env=place.variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS * (1 + len(commands)),
    )
    for number, (command, how) in enumerate(commands):
        out = place.folder / f"out-{number}"
        said = (out.read_text(errors="replace") if out.exists() else "") + done.stderr
        status = int((place.folder / f"status-{number}").read_text())
        assert status in how.status, f"{command}: exit code {status}\n{said}"
        assert re.search(how.says, said), f"{command}: no {how.says!r} in\n{said}"
        for name in how.writes:
            written = place.folder / name
            assert written.exists() and written.stat().st_size > 0, f"{command}: {name}\n{said}"
