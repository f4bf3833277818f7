"""Ebbtide trains an unmodified PyTorch script within a byte budget, bit for bit as without it.

There is nothing that has to be called. Install the package, then set the environment of the
training command:

    EBBTIDE_BUDGET=30GiB torchrun train.py

PyTorch loads the plugin at the end of ``import torch``. Without ``EBBTIDE_BUDGET`` and
``EBBTIDE=1`` it does nothing. This module does not import torch.

``ebbtide.step()``, once an iteration after the update, is for loops in which no step is seen.
"""

from collections.abc import Callable

__version__ = "0.1.0"

_hint: Callable[[], None] | None = None  # of the library, set where the plugin was started


def step() -> None:
    """Says that the calling thread's training step ends here; the next operation begins another.

    Optional: see docs/configuration.md. Changes no number, and does nothing without the plugin.
    """
    if _hint is not None:
        _hint()
