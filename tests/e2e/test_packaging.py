import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


# Over 20 s: pip compiles the whole plugin, from ccache at best.
def test_the_wheel_holds_the_library_and_serves_every_cpython(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index")
    # By the name of the compiler that ./dev takes, whose objects ccache then has.
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")} | {"CXX": "c++"}
    built = subprocess.run(
        (*pip, "--wheel-dir", str(tmp_path), "."),
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("ebbtide-*.whl")
    assert "-py3-none-linux" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (n for n in names if n.endswith(".dist-info/entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert {
        "ebbtide/__init__.py",
        "ebbtide/_autoload.py",
        "ebbtide/libebbtide.so",
        "ebbtide/libebbtide_torch.so",
        "ebbtide/libnccl-profiler-ebbtide.so",
        "ebbtide/include/ebbtide/step.h",
    } <= names
    # torch calls this at its import.
    assert "[torch.backends]\nebbtide=ebbtide._autoload:load" in text.replace(" ", "")
