"""The table of faults that tests must find (tests/emulated_gpu/mutations) fits the sources."""

import sys

import pytest
from processes import ROOT

FOLDER = ROOT / "tests" / "emulated_gpu" / "mutations"
sys.path.insert(0, str(FOLDER))
from mutation import EndToEnd, Mutation  # noqa: E402
from table import MUTATIONS  # noqa: E402

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_text_stands_once_in_its_file(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.replacement != mutation.text


def test_no_two_faults_are_the_same() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    changes = {(mutation.file, mutation.text, mutation.replacement) for mutation in MUTATIONS}
    assert len(changes) == len(MUTATIONS)


def is_there(mutation: Mutation) -> bool:
    test = mutation.test
    if isinstance(test, EndToEnd):
        file, _, name = test.test.partition("::")
        function, _, parameter = name.partition("[")
        text = (ROOT / file).read_text()
        return f"def {function}(" in text and parameter.removesuffix("]") in text
    suite, _, name = test.test.removesuffix("/*").lstrip("*").partition(".")
    text = f"({suite}, {name})"
    tests = (*ROOT.glob("tests/**/*_test.cpp"), *ROOT.glob("tests/**/*_contract.hpp"))
    return any(text in file.read_text() for file in tests)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_test_that_must_find_it_is_there(mutation: Mutation) -> None:
    assert is_there(mutation), mutation.test
