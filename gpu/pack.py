"""One folder from which a machine without a network builds and tests Ebbtide on its GPU.

./dev gpu-pack [FOLDER]     (gpu-pack in the checkout)

    source/        the checkout, without what git ignores
    third_party/   headers and libraries that the build needs beside torch and CUDA
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 40 << 20

INCLUDE = Path("/usr/include")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
HEADERS = ("nlohmann", "fmt", "CLI", "toml++", "prometheus", "gtest", "zlib.h", "zconf.h")
# Prometheus is packed as the shared library that Debian has; the others are static or headers only.
BINARIES = {
    "libgtest.a": "libgtest.a",
    "libgtest_main.a": "libgtest_main.a",
    "libz.a": "libz.a",
    "libprometheus-cpp-core.so.1.0.1": "libprometheus-cpp-core.so.1.0",
}
PACKAGES = ("nlohmann_json", "fmt", "Boost", "CLI11", "prometheus-cpp", "GTest")

INCLUDED = re.compile(r'^\s*#\s*include\s+["<]((?:boost/)?[\w./+-]+)[">]', re.MULTILINE)
# Boost also includes by names that macros make (BOOST_PP_ITERATE, compiler and library settings).
# Of what those name the build needs these folders.
BOOST_FOLDERS = ("config", "preprocessor", "mpl/aux_", "mpl/vector", "mpl/list", "typeof")


def boost_headers(roots: list[str]) -> set[Path]:
    """All that `roots` include, under whatever condition."""
    found: set[Path] = set()
    waiting = [Path(root) for root in roots]
    for folder in BOOST_FOLDERS:
        for suffix in ("*.hpp", "*.h"):
            files = (INCLUDE / "boost" / folder).rglob(suffix)
            waiting += [file.relative_to(INCLUDE) for file in files]
    while waiting:
        header = waiting.pop()
        if header in found or not (INCLUDE / header).is_file():
            continue
        found.add(header)
        text = (INCLUDE / header).read_text(errors="replace")
        for name in INCLUDED.findall(text):
            beside = header.parent / name
            waiting.append(Path(name) if name.startswith("boost/") else beside)
    return found


def used_boost_headers() -> list[str]:
    roots: set[str] = set()
    for folder in ("metrics", "cli", "plugin", "scheduler", "allocator", "tests"):
        for source in (ROOT / folder).rglob("*.[ch]pp"):
            roots.update(re.findall(r"#include <(boost/[^>]+)>", source.read_text()))
    return sorted(roots)


def pack_headers(target: Path) -> None:
    target.mkdir(parents=True)
    for name in HEADERS:
        source = INCLUDE / name
        if not source.exists() and name == "zconf.h":
            source = INCLUDE / "x86_64-linux-gnu" / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        else:
            shutil.copy(source, target / name)
    for header in boost_headers(used_boost_headers()):
        (target / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(INCLUDE / header, target / header)


def pack_libraries(target: Path) -> None:
    target.mkdir(parents=True)
    for name, packed in BINARIES.items():
        shutil.copy(LIBRARIES / name, target / packed)


def pack_configs(target: Path) -> None:
    shutil.copytree(ROOT / "gpu" / "cmake", target)
    for package in PACKAGES:
        shutil.copy(target / "version.cmake", target / f"{package}ConfigVersion.cmake")


def pack_source(target: Path, folder: Path) -> None:
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if not source.is_file() or folder in source.parents:
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target / name)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "gpu-pack"
    if (folder / "third_party").exists():
        shutil.rmtree(folder)  # an earlier pack
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"gpu-pack: {folder} is not empty, and no earlier pack")
    pack_source(folder / "source", folder)
    pack_headers(folder / "third_party" / "include")
    pack_libraries(folder / "third_party" / "lib")
    pack_configs(folder / "third_party" / "cmake")
    parts = {name: size_of(folder / name) for name in ("source", "third_party")}
    total = sum(parts.values())
    listed = ", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in parts.items())
    print(f"gpu-pack: {total / 2**20:.1f} MiB in {folder} ({listed})")
    if total > MOST_BYTES:
        sys.exit(f"gpu-pack: more than {MOST_BYTES >> 20} MiB")


if __name__ == "__main__":
    main()
