"""Ebbtide trains an unmodified PyTorch script within a byte budget, bit for bit as without it.

There is nothing that has to be called. Install the package, then set the environment of the
training command:

    EBBTIDE_BUDGET=30GiB torchrun train.py

PyTorch loads the plugin at the end of ``import torch``. Without ``EBBTIDE_BUDGET`` and
``EBBTIDE=1`` it does nothing. This module does not import torch.

``ebbtide.step()``, once an iteration after the update, is for loops in which no step is seen;
``ebbtide.stage()`` for pipelines that name no microbatches.
"""

from collections.abc import Callable

__version__ = "0.1.0"

# Of the library, set where the plugin was started.
_hint: Callable[[], None] | None = None
_stage_hint: Callable[[int, int], None] | None = None


def step() -> None:
    """Says that the calling thread's training step ends here; the next operation begins another.

    Optional: see docs/configuration.md. Changes no number, and does nothing without the plugin.
    """
    if _hint is not None:
        _hint()


def stage(stage: int, microbatch: int) -> None:
    """Says that the calling thread turns to a microbatch of a pipeline stage, both from 0.

    Holds until the next call or the end of the step. Optional, and changes no number, as step().
    """
    if _stage_hint is not None:
        _stage_hint(int(stage), int(microbatch))
