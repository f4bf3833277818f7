"""An include against the order of a component's folders (floors.txt) is an error that names it.

floor   folder    files                      public header
1       base      clock.hpp                  units.hpp, which has no source
2       left      left.cpp
2       right     right.cpp                  right.hpp
3       src       top.cpp
"""

import subprocess
from pathlib import Path

import pytest
from processes import ROOT

pytestmark = pytest.mark.quick

FLOORS = "# A comment.\n1 src/base units\n2 src/left\n2 src/right\n3 src\n"
PUBLIC = "include/ebbtide/component"
FILES = {
    "src/base/clock.hpp": '#include "ebbtide/component/units.hpp"\n',
    "src/left/left.cpp": '#include "base/clock.hpp"\n#include "ebbtide/another/right.hpp"\n',
    "src/right/right.cpp": '#include "ebbtide/component/right.hpp"\n\n#include "base/clock.hpp"\n',
    "src/right/rows.hpp": "#include <vector>\n",
    "src/top.cpp": '#include "ebbtide/component/right.hpp"\n#include "right/rows.hpp"\n',
    f"{PUBLIC}/right.hpp": '#include "ebbtide/component/units.hpp"\n',
    f"{PUBLIC}/units.hpp": "#include <cstdint>\n",
}


def check(component: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "cmake" / "include_order.cmake"
    return subprocess.run(
        ("cmake", "-D", f"COMPONENT={component}", "-P", str(script)), capture_output=True, text=True
    )


def component_with(folder: Path, changes: dict[str, str]) -> Path:
    for name, text in ({"floors.txt": FLOORS} | FILES | changes).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_includes_from_below_are_accepted(tmp_path: Path) -> None:
    done = check(component_with(tmp_path, {}))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("file", "text", "line", "said"),
    [
        pytest.param(
            "src/base/clock.hpp",
            '// right/rows.hpp\n#include <vector>\n\n#include "right/rows.hpp"\n',
            4,
            "right/rows.hpp is of 'src/right'; 'src/base' may include 'src/base'",
            id="from above",
        ),
        pytest.param(
            "src/left/left.cpp",
            '#include "base/clock.hpp"\n#include "right/rows.hpp"\n',
            2,
            "right/rows.hpp is of 'src/right'; 'src/left' may include 'src/base;src/left'",
            id="of the same floor",
        ),
        pytest.param(
            "src/left/left.cpp",
            '#include "../right/rows.hpp"\n',
            1,
            "../right/rows.hpp is of 'src/right'",
            id="beside itself",
        ),
        pytest.param(
            "src/left/left.cpp",
            '#include "ebbtide/component/right.hpp"\n',
            1,
            "ebbtide/component/right.hpp is of 'src/right'",
            id="a public header",
        ),
        pytest.param(
            f"{PUBLIC}/units.hpp",
            '#include "ebbtide/component/right.hpp"\n',
            1,
            "ebbtide/component/right.hpp is of 'src/right'; 'src/base' may include 'src/base'",
            id="between public headers",
        ),
        pytest.param(
            "src/new/new.cpp",
            '#include "base/clock.hpp"\n',
            1,
            "base/clock.hpp is of 'src/base'; 'src/new' may include ''",
            id="in a folder without a floor",
        ),
    ],
)
def test_an_include_against_the_order_is_named(
    file: str, text: str, line: int, said: str, tmp_path: Path
) -> None:
    done = check(component_with(tmp_path, {file: text}))
    assert done.returncode == 1
    assert f"{tmp_path / file}:{line}: {said}" in done.stderr
    assert done.stderr.count("CMake Error") == 1


def test_a_public_header_of_no_folder_is_named(tmp_path: Path) -> None:
    text = '#include "ebbtide/component/lost.hpp"\n'
    changes = {"src/top.cpp": text, f"{PUBLIC}/lost.hpp": "#include <vector>\n"}
    done = check(component_with(tmp_path, changes))
    assert f"{tmp_path}/src/top.cpp:1: ebbtide/component/lost.hpp is of ''" in done.stderr
    assert done.returncode == 1


def test_kernels_and_headers_of_c_are_looked_at(tmp_path: Path) -> None:
    changes = {"src/left/kernels.cu": '#include "right/rows.h"\n', "src/right/rows.h": "\n"}
    done = check(component_with(tmp_path, changes))
    assert f"{tmp_path}/src/left/kernels.cu:1: right/rows.h is of 'src/right'" in done.stderr
    assert done.stderr.count("CMake Error") == 1


def test_floors_are_listed_from_the_ground_up(tmp_path: Path) -> None:
    """Else a folder might include what is above it."""
    done = check(component_with(tmp_path, {"floors.txt": "2 src/left\n1 src/base units\n"}))
    assert done.returncode == 1
    assert f"{tmp_path}/floors.txt: src/base is listed after floor 2" in done.stderr


@pytest.mark.parametrize("include", ["torch/torch.h", "ATen/ATen.h", "c10/core/Device.h"])
@pytest.mark.parametrize("written", ["#include <{}>", '#include "{}"', "#  include <{}>"])
def test_torch_is_included_below_the_line_alone(written: str, include: str, tmp_path: Path) -> None:
    text = f"#include <vector>\n\n{written.format(include)}\n"
    changes = {"floors.txt": FLOORS.replace("3 src\n", "--- torch below\n3 src\n")}
    done = check(component_with(tmp_path, changes | {"src/top.cpp": text}))
    assert (done.returncode, done.stderr) == (0, "")
    done = check(component_with(tmp_path, changes | {"src/left/left.cpp": text}))
    said = f"{tmp_path}/src/left/left.cpp:3: {include} is torch's; 'src/left' is above the line"
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("CMake Error") == 1


def test_without_a_line_torch_is_included_anywhere(tmp_path: Path) -> None:
    changes = {"src/left/left.cpp": "#include <torch/torch.h>\n"}
    done = check(component_with(tmp_path, changes))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["a[x]", "a]x[", "[!a]", "a*x", "a?x", "a x"])
def test_a_checkout_may_have_any_name(name: str, tmp_path: Path) -> None:
    """One whose name CMake takes for an expression would have no sources, and none against it."""
    changes = {"src/left/left.cpp": '#include "right/rows.hpp"\n'}
    folder = component_with(tmp_path / name, changes)
    component_with(tmp_path / "abx", changes)
    done = check(folder)
    assert f"{folder}/src/left/left.cpp:1: right/rows.hpp is of 'src/right'" in done.stderr
    assert done.stderr.count("CMake Error") == 1


@pytest.mark.parametrize("name", ["a[x", "a]x"])
def test_a_bracket_without_its_pair_is_named(name: str, tmp_path: Path) -> None:
    done = check(component_with(tmp_path / name, {}))
    assert done.returncode == 1
    assert f"no sources are found in {tmp_path / name}: rename the folder" in done.stderr


def test_an_editor_s_lock_is_no_source(tmp_path: Path) -> None:
    component = component_with(tmp_path, {})
    (component / "src" / "left" / ".#left.cpp").symlink_to("somebody@somewhere.1:2")
    done = check(component)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("component", ["scheduler", "plugin"])
def test_our_components_keep_their_order(component: str) -> None:
    done = check(ROOT / component)
    assert (done.returncode, done.stderr) == (0, "")
