"""docs/glossary.md speaks of what there is: each word in code format stands in the file beside it.

A word of comments alone stands nowhere: they may be of what was."""

import re
from pathlib import Path

import pytest
from processes import ROOT

pytestmark = pytest.mark.quick

ROW = re.compile(r"^\| (?P<word>[^|]+) \| (?P<meaning>[^|]+) \| (?P<where>[^|]+) \|$")
PLACE = re.compile(r"`(?P<name>\w+)` in `(?P<file>[^`]+)`")


def rows() -> list[re.Match[str]]:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    found = [ROW.match(line) for line in table[2:]]  # below its head
    assert all(found), [line for line, row in zip(table[2:], found, strict=True) if not row]
    return found


def code_of(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text())


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=[row["word"] for row in ROWS])
def test_a_word_stands_where_the_glossary_says(row: re.Match[str]) -> None:
    places = PLACE.findall(row["where"])
    for name, file in places:
        assert (ROOT / file).is_file(), file
        assert re.search(rf"\b{name}\b", code_of(ROOT / file)), f"no {name} in {file}"
    rest = re.findall(r"`([^`]+)`", PLACE.sub("", row["where"]) + row["word"] + row["meaning"])
    assert [file for file in rest if not (ROOT / file).is_file()] == []
    assert places or rest, "it stands nowhere"


def test_words_are_in_order() -> None:
    words = [row["word"] for row in ROWS]
    assert words == sorted(words, key=lambda word: re.sub(r" \(\*.*", "", word))
    assert len(words) == len(set(words))


# Words of people for what the code calls otherwise, since it says more there.
OTHER_NAMES = {
    "block",
    "copy",
    "event",
    "graph input",
    "recorded step",
    "rematerialization",
    "replay",
    "replay ahead",
    "retention interval",
    "smallest budget",
}
# What the field calls otherwise: not to come back.
REPLACED = re.compile(
    r"\b(LastOf|Recipe|Ledger|EventRunner|SavedUse|PlannedResource|MappedStretch|natural_deaths?_"
    r"|kNaturalDeath|grain_bytes|rehearses|rehearsal)\b"
)


def plain(text: str) -> str:
    return re.sub("[^a-z]", "", text.lower())


def test_the_code_has_the_words_themselves() -> None:
    missing = set()
    for row in ROWS:
        word = row["word"].partition(" (")[0]
        if plain(word) not in plain(row["where"]):
            missing.add(word)
    assert missing == OTHER_NAMES


def test_replaced_names_are_gone() -> None:
    sources = [
        path
        for folder in ("scheduler", "allocator", "metrics", "cli", "plugin", "tests")
        for path in (ROOT / folder).rglob("*.[ch]pp")
    ]
    assert len(sources) > 500
    having = [path for path in sources if REPLACED.search(path.read_text())]  # in a comment, maybe
    found = {path.name: REPLACED.findall(code_of(path)) for path in having}
    assert {name: names for name, names in found.items() if names} == {}
