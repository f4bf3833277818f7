"""Ebbtide spills what a checkpoint's region computes again, and the bits are plain's."""

import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_frames import PROGRAMS
from ebbtide._checkpoints import pack_code
from processes import run, script
from tiers import nightly_but
from torch.utils.checkpoint import CheckpointError, checkpoint

# The budget, as a share of the peak with everything kept. A Function's node reads three tensors of
# 4 MiB at once, and makes five.
SHARES = dict.fromkeys(PROGRAMS, 0.8) | {"own_function": 0.95}
# The first two have nothing of ours. What the third writes over counts twice. New data of the last
# one stays until the step's graph is gone.
GOES_OVER = {"other_hooks", "watched", "in_place", "other_data"}


@pytest.mark.parametrize("name", nightly_but({"blocks", "in_place", "other_data"}, PROGRAMS))
def test_it_trains_in_a_part_of_its_peak(name: str, tmp_path: Path) -> None:
    program = script("tests/e2e/checkpoint_frames.py", name)
    plain = run(program, {}, tmp_path / "plain").succeeded()
    watched = run(program, {"EBBTIDE": "1"}, tmp_path / "watched").succeeded()
    variables = {
        "EBBTIDE_BUDGET": str(int(SHARES[name] * watched.report["peak_bytes"])),
        "EBBTIDE_ON_INFEASIBLE": "best-effort",
    }
    within = run(program, variables, tmp_path / "within").succeeded(over_budget=True)
    assert watched.results == plain.results
    assert within.results == plain.results
    assert name in GOES_OVER or within.report["budget_violations"] == 0, within.output
    assert within.report["spilled_bytes"] + within.report["offloaded_bytes"] > 0, within.output


# Some 20 s: three runs of a net whose steps go to disk and back at the least budget.
@pytest.mark.parametrize("name", nightly_but({"chain"}, [p for p in PROGRAMS if p != "fails"]))
def test_the_budget_that_a_refusal_names_trains(name: str, tmp_path: Path) -> None:
    program = script("tests/e2e/checkpoint_frames.py", name)
    plain = run(program, {}, tmp_path / "plain").succeeded()
    refused = run(program, {"EBBTIDE_BUDGET": "8MiB"}, tmp_path / "refused")
    (named,) = re.findall(r"Smallest budget: EBBTIDE_BUDGET=(\d+)MiB", refused.output)
    within = run(program, {"EBBTIDE_BUDGET": f"{named}MiB"}, tmp_path / "within").succeeded()
    assert within.results == plain.results and within.report["budget_violations"] == 0


def code_of(hook: Callable) -> types.CodeType:
    """Torch 2.15 wraps the one with which a region runs again."""
    return getattr(hook, "_torchdynamo_orig_callable", hook).__code__


def test_the_hook_with_which_a_region_runs_again_is_known() -> None:
    seen: list[object] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        (pack, _) = torch._C._autograd._top_saved_tensors_default_hooks(False)
        seen.append(pack)
        return x.sin()

    x = torch.ones(4, requires_grad=True)
    checkpoint(look, x, use_reentrant=False).sum().backward()
    forward, again = seen
    assert code_of(again) is pack_code() is not code_of(forward)


class Unreadable(torch.Tensor):
    """As a stand-in: an operation that reads or copies it fails."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked = getattr(func, "__self__", None)
        looks = {torch.Tensor.shape, torch.Tensor.dtype, torch.Tensor.device}
        looks.add(torch.Tensor.requires_grad)
        assert asked in looks, f"{func} is called on what a checkpoint keeps"
        return super().__torch_function__(func, types, args, kwargs or {})


def test_that_hook_looks_at_no_contents() -> None:
    """Of a torch whose hook reads what it is given no stand-in may be made."""
    given: list[torch.Tensor] = []

    def save(x: torch.Tensor) -> torch.Tensor:
        (pack, _) = torch._C._autograd._top_saved_tensors_default_hooks(False)
        if code_of(pack) is pack_code():
            given.append(pack(torch.ones(3).as_subclass(Unreadable)))
        return x.sin()

    x = torch.ones(3, requires_grad=True)
    region = checkpoint(save, x, use_reentrant=False, early_stop=False)
    with pytest.raises(CheckpointError):  # one tensor more than in the forward pass
        region.sum().backward()
    assert len(given) == 1
