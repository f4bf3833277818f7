"""Of a matrix of trainings: what ./dev test runs, and what only ./dev test --all does."""

from collections.abc import Iterable

import pytest


def nightly_but(kept: set[str], names: Iterable[str]) -> list:
    """Parameters: those kept stand for the others, which are marked nightly."""
    names = list(names)
    assert kept <= set(names), kept - set(names)
    return [
        pytest.param(name, id=name, marks=() if name in kept else pytest.mark.nightly)
        for name in names
    ]
