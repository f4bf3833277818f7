"""Tells the plugin which saved-tensor hook is that of torch.utils.checkpoint.

With ``use_reentrant=False`` a region of the forward pass runs again in the backward pass, under a
pair of hooks. Its pack hook only looks at a tensor's shape, type and device, and puts it into a
dictionary. So the plugin may give it a stand-in without memory. Hooks of others may read what they
are given: the code that a hook runs tells them apart (torch/utils/checkpoint.py,
_recomputation_hook).
"""

import ctypes
import types

import torch.utils.checkpoint  # torch imports it itself


def pack_code() -> types.CodeType | None:
    """Of the pack hook; None: this torch has another one."""
    hooks = getattr(torch.utils.checkpoint, "_recomputation_hook", None)
    constants = hooks.__init__.__code__.co_consts if hooks is not None else ()
    codes = [constant for constant in constants if isinstance(constant, types.CodeType)]
    found = [code for code in codes if code.co_name == "pack_hook"]
    return found[0] if len(found) == 1 else None


_told: list[types.CodeType] = []  # lives as long as the process


def tell(library: ctypes.CDLL) -> None:
    if (code := pack_code()) is not None:
        _told.append(code)
        library.ebbtide_checkpoints_code(ctypes.c_void_p(id(code)))
