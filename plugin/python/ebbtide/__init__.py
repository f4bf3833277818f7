"""Ebbtide trains an unmodified PyTorch script within a byte budget, bit for bit as without it.

There is nothing to call. Install the package, then set the environment of the training command:

    EBBTIDE_BUDGET=30GiB torchrun train.py

PyTorch loads the plugin at the end of ``import torch``. Without ``EBBTIDE_BUDGET`` and
``EBBTIDE=1`` it does nothing. This module does not import torch.
"""

__version__ = "0.1.0"
