"""Each line and error that the plugin says by itself has a code: its text is in the table. So has
each refusal of its servers.

message_table_test.cpp asserts that the page has the table of
plugin/src/base/message_table.cpp.
"""

import re

import pytest
from processes import ROOT

pytestmark = pytest.mark.quick

ROW = re.compile(r"^\| (EB\d+) \| `([^`]+)` \|", re.MULTILINE)
LITERALS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
SAID = re.compile(r"\b(?:warn_?|say)\((?:return |\s|std::string\(|fmt::format\()*" + LITERALS)
# Texts that begin with what another function gave, as they come out.
BEGUN_ELSEWHERE = {
    "{}. Plans write no more": "cannot write to the spill file in /tmp: No space left on device",
    "GPU ": "GPU 0: the budget was lowered to 1 GiB while live blocks hold 2 GiB",
    "{} {}: training goes on over": "step 3 needed at least 3 MiB, more than the budget of 2 MiB",
    "out of memory. DefaultCPUAllocator: can't allocate memory within": (
        "out of memory. DefaultCPUAllocator: can't allocate memory within the budget of 2 MiB: it "
        "is too small for this program"
    ),
}
STATEMENT = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^;"])*;')
COMMENT = re.compile(r"^\s*//.*$|  // .*$", re.MULTILINE)
PASSED_ON = ("%s\\n", "", "nothing\\x01")  # another text comes there; nobody reads the last one


def table() -> dict[str, re.Pattern]:
    rows = dict(ROW.findall((ROOT / "docs" / "configuration.md").read_text()))
    return {code: re.compile(re.escape(text).replace("…", ".*")) for code, text in rows.items()}


def texts() -> list[tuple[str, str]]:
    """The file, and the literal that a call begins its text with."""
    found = []
    for path in sorted((ROOT / "plugin" / "src").rglob("*.cpp")):
        for match in SAID.finditer(path.read_text()):
            parts = re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])
            found.append((path.name, "".join(parts).replace('\\"', '"')))
    return found


def has_code(text: str, rows: dict[str, re.Pattern]) -> bool:
    begun = [said for begin, said in BEGUN_ELSEWHERE.items() if text.startswith(begin)]
    said = begun[0] if begun else re.sub(r"\{[^}]*\}", "X", text)
    return any(row.match(said) for row in rows.values())


def errors() -> list[tuple[str, str, str]]:
    """The file, the statement, and its literals from "ebbtide: " on; X is what differs."""
    found = []
    for path in sorted((ROOT / "plugin" / "src").rglob("*.[ch]pp")):
        for match in STATEMENT.finditer(COMMENT.sub("", path.read_text())):
            statement = re.sub(r'"\s+"', "", match[0])
            _, begin, rest = statement.partition('"ebbtide: ')
            if begin:
                literals = re.findall(r'"((?:[^"\\]|\\.)*)"', begin + rest)
                found.append((path.name, statement, "X".join(literals)))
    return found


def test_each_error_of_the_plugin_has_a_code() -> None:
    """Where it is thrown at once the code is put to it there."""
    rows, found = table(), errors()
    thrown = [statement for _, statement, _ in found if "TORCH_CHECK" in statement]
    assert len(thrown) > 10
    bare = [one for one in thrown if "withCode(" not in one and "lostValue(" not in one]
    assert not bare, "thrown without a code"
    said = [(name, text.removeprefix("ebbtide: ")) for name, _, text in found]
    without = [one for one in said if one[1] not in PASSED_ON and not has_code(one[1], rows)]
    assert not without, "neither in message_table.cpp nor in BEGUN_ELSEWHERE"


HEADER = ROOT / "metrics" / "include" / "ebbtide" / "metrics" / "refusals.hpp"
REFUSAL = re.compile(r'Refusal (k\w+)\{"(EB\d+)", (\d+)\};')
REFUSED = re.compile(r"^\| (EB\d+) \| (\d+) \| [^|]+ \|$", re.MULTILINE)
GIVEN = re.compile(r"errorResponse\(\s*([\w:]+)")


def test_the_page_has_the_codes_of_the_refusals() -> None:
    """A code is of one cause, and one that lines have too is in their table."""
    refusals = REFUSAL.findall(HEADER.read_text())
    assert len(refusals) > 30  # else nothing was looked at
    page = REFUSED.findall((ROOT / "docs" / "control.md").read_text())
    assert sorted(page) == sorted((code, status) for _, code, status in refusals)
    codes = [code for _, code, _ in refusals]
    assert len(codes) == len(set(codes))
    assert {code for code in codes if len(code) == 4} <= table().keys()


def test_each_refusal_has_a_code_and_each_code_is_used() -> None:
    """What takes the code from elsewhere is named here: by why steps are not recorded."""
    sources = [*(ROOT / "metrics" / "src").glob("*.cpp"), *(ROOT / "plugin" / "src").rglob("*.cpp")]
    text = "".join(path.read_text() for path in sources)
    assert "/v1/" in text
    given = set(GIVEN.findall(text)) - {"const"}  # its definition
    assert {one for one in given if not one.startswith("refusals::k")} == {"refusalFor"}
    names = [name for name, _, _ in REFUSAL.findall(HEADER.read_text())]
    assert [name for name in names if not re.search(rf"refusals::{name}\b", text)] == []


def test_each_text_of_the_plugin_has_a_code() -> None:
    rows, found = table(), texts()
    del rows["EB67"]  # of errors at the start: it begins as any warning of a variable
    assert len(rows) > 50 and len(found) > 30  # else nothing was looked at
    without = [one for one in found if not has_code(one[1], rows)]
    assert not without, "neither in message_table.cpp nor in BEGUN_ELSEWHERE"
