"""docs/where.md names files that there are, and functions that stand in them."""

import re

import pytest
from processes import ROOT

pytestmark = pytest.mark.quick

TEXT = (ROOT / "docs" / "where.md").read_text()
PATH = r"`((?:allocator|cli|docs|metrics|plugin|scheduler|tests)(?:/[\w.]+)*)`"
PLACE = re.compile(rf"`(\w+)` in {PATH}")


def test_each_path_is_there() -> None:
    paths = set(re.findall(PATH, TEXT))
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_each_function_stands_in_its_file() -> None:
    places = PLACE.findall(TEXT)
    assert len(places) == 13
    for name, file in places:
        assert re.search(rf"\b{name}\b", (ROOT / file).read_text()), f"no {name} in {file}"
