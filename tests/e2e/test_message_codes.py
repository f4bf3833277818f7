"""Each line that the plugin says by itself has a code: its text is in the table of messages.

That the page has the table of plugin/src/message_table.cpp is asserted by message_table_test.cpp.
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
}


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


def test_each_text_of_the_plugin_has_a_code() -> None:
    rows, found = table(), texts()
    del rows["EB67"]  # of errors at the start: it begins as any warning of a variable
    assert len(rows) > 50 and len(found) > 30  # else nothing was looked at
    without = []
    for name, text in found:
        begun = [said for begin, said in BEGUN_ELSEWHERE.items() if text.startswith(begin)]
        said = begun[0] if begun else re.sub(r"\{[^}]*\}", "X", text)
        if not any(row.match(said) for row in rows.values()):
            without.append((name, text))
    assert not without, "neither in message_table.cpp nor in BEGUN_ELSEWHERE"
