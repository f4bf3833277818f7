"""The executor on a device that is no CPU to it: same bits, and the device's parts called rightly.

tests/fake_device ends the process where a mark or a slot is used after its release, or twice.
"""

import json
from pathlib import Path

import pytest
from conftest import MIB
from deviations import VARIANTS
from processes import LIBRARIES, ROOT, Finished, Program, run, script
from tiers import nightly_but

OFFLOADS = {"never": False, "auto": True}


def on_fake_device(path: str, *arguments: str, ranks: int = 1) -> Program:
    program = (str(ROOT / path), *arguments)
    return script("tests/e2e/on_fake_device.py", *program, ranks=ranks)


def budgeted(
    path: str,
    arguments: tuple[str, ...],
    mib: float,
    folder: Path,
    over_budget: bool = False,
    **more: str,
) -> tuple[Finished, dict[str, int]]:
    counts = folder / "counts.json"
    variables = {
        "EBBTIDE_BUDGET": str(int(mib * MIB)),
        "EBBTIDE_ON_INFEASIBLE": "best-effort",
        "EBBTIDE_LOG": "debug",
        "FAKE_DEVICE_COUNTS": str(counts),
        "FAKE_DEVICE": str(LIBRARIES / "libebbtide_fake_device.so"),
    }
    done = run(on_fake_device(path, *arguments), variables | more, folder).succeeded(over_budget)
    return done, json.loads(counts.read_text())


# 22 MiB of 29: some values have to be computed again, or offloaded, in each step.
@pytest.mark.parametrize("offload", OFFLOADS)
def test_same_bits(offload: str, tmp_path: Path) -> None:
    path, arguments = "tests/e2e/tiny_train.py", ("--variants", "plain", "--steps", "12")
    stock = run(script(path, *arguments), {}, tmp_path / "stock").succeeded()
    done, counts = budgeted(path, arguments, 22, tmp_path / "fake", EBBTIDE_OFFLOAD=offload)
    assert done.results == stock.results
    report = done.report
    assert not report["pass_through"], done.output
    # Where ops take long on a busy machine all values may be quicker to fetch.
    repeats = report["recomputed_ops"] > 0
    assert repeats or OFFLOADS[offload], done.output
    # The first step spills whatever the plans do.
    assert counts["written"] > 0 and counts["read"] > 0
    assert (report["offloaded_bytes"] > 0) == OFFLOADS[offload], done.output
    # Verification steps compare, on blocks that were filled before.
    filled = counts["compared"] > 0 and counts["fills"] > 0 and counts["printed"] > 0
    assert filled or not repeats
    # Recorded steps are timed, and only where somebody reads the times.
    assert counts["spans_read"] > 0
    assert counts["marks"] == counts["marks_released"]
    # The host does not look into this memory: no bits, no checksums without a plan.
    assert report["decoded_values"] == 0
    assert report["dropped_online_bytes"] == 0


# 26 MiB of 29, and after six steps a library holds 4 of them: what plans may use is less from the
# next step on. The plan before took more than what is left, so another one is made.
def test_what_others_take_in_between_is_planned_for(tmp_path: Path) -> None:
    path, arguments = "tests/e2e/tiny_train.py", ("--variants", "plain", "--steps", "20")
    stock = run(script(path, *arguments), {}, tmp_path / "stock").succeeded()
    alone, _ = budgeted(path, arguments, 26, tmp_path / "alone")
    beside, _ = budgeted(
        path, arguments, 26, tmp_path / "beside", FAKE_DEVICE_OTHERS=f"6:{4 * MIB}"
    )
    assert alone.results == stock.results and beside.results == stock.results
    assert alone.report["predicted_peak_bytes"] > 22 * MIB
    assert 0 < beside.report["predicted_peak_bytes"] <= 22 * MIB, beside.output
    assert beside.report["recomputed_ops"] > alone.report["recomputed_ops"]


# What something unseen writes into a value that the plan has dropped while the program holds it is
# used, as PyTorch would: no free of the block tells here.
@pytest.mark.parametrize(
    "name",
    nightly_but(
        {"writes_one_of_two_results"},
        ("writes_results_through_numpy", "writes_one_of_two_results", "swaps_its_input"),
    ),
)
def test_writes_unseen(name: str, tmp_path: Path) -> None:
    path, arguments = "tests/e2e/deviations.py", ("--variants", name)
    stock = run(script(path, *arguments), {}, tmp_path / "stock").succeeded()
    # A verification step may go over the budget, as best-effort allows.
    done, _ = budgeted(path, arguments, VARIANTS[name].budget_mib, tmp_path / "fake", True)
    assert done.results == stock.results
    assert not done.report["pass_through"], done.output
    assert done.report["recomputed_ops"] > 0, done.output


# The first replay differs from the original where neither wrote: two more, into memory that was
# filled with two patterns, show that these bytes are no result.
@pytest.mark.parametrize(
    "name", nightly_but({"weighs_losses"}, ("weighs_losses", "spreads_volumes"))
)
def test_bytes_that_an_op_leaves_unwritten(name: str, tmp_path: Path) -> None:
    path, arguments = "tests/e2e/deviations.py", ("--variants", name)
    stock = run(script(path, *arguments), {}, tmp_path / "stock").succeeded()
    # More than on the host, where the first steps drop and compute again.
    budget = VARIANTS[name].budget_mib
    done, _ = budgeted(path, arguments, budget, tmp_path / "fake", True, EBBTIDE_OFFLOAD="never")
    assert done.results == stock.results
    assert not done.report["rejected"], done.output
    assert done.report["recomputed_ops"] > 0, done.output


# A transfer holds its tensor until it is waited for (ProcessGroupNCCL: until the stream waits).
# What it holds is neither given up nor spilled meanwhile, and what it fills late is not read early:
# here Gloo's threads read and write it.
def test_messages_under_way(tmp_path: Path) -> None:
    path, arguments = "tests/e2e/deviations.py", ("--variants", "sends_what_it_saved")
    stock = run(script(path, *arguments, ranks=2), {}, tmp_path / "stock").succeeded()
    budget = int(VARIANTS["sends_what_it_saved"].budget_mib * MIB)
    program = on_fake_device(path, *arguments, ranks=2)
    variables = {"EBBTIDE_BUDGET": str(budget), "EBBTIDE_ON_INFEASIBLE": "best-effort"}
    done = run(program, variables, tmp_path / "fake").succeeded(over_budget=True)
    assert done.results == stock.results
    assert len(done.reports) == 2
    for report in done.reports:
        assert not report["pass_through"], done.output
        assert report["recomputed_ops"] > 0 and report["spilled_bytes"] > 0, done.output


# The fake device ends the process where anything is asked of it while a graph is captured.
def on_lanes(
    name: str, mib: float, folder: Path, over_budget: bool = False
) -> tuple[Finished, dict[str, int]]:
    path, arguments = "tests/e2e/lanes_train.py", (name,)
    stock = run(script(path, *arguments), {}, folder / "stock").succeeded()
    done, counts = budgeted(path, arguments, mib, folder / "fake", over_budget)
    assert done.results == stock.results
    assert not done.report["pass_through"], done.output
    # The step's lane is 0: nothing is asked for on another one, and no part of the work is lost.
    assert counts["on_other_lanes"] == 0
    assert counts["marks"] == counts["marks_released"]
    return done, counts


# Four blocks of 5 activations of 2 MiB and the mask: 40 MiB and more live at once.
@pytest.mark.parametrize(
    "name", nightly_but({"captures"}, ("plain", "prefetches", "captures", "switches"))
)
def test_one_lane(name: str, tmp_path: Path) -> None:
    # What is captured is kept: 2 MiB more.
    done, counts = on_lanes(name, 28 if name == "captures" else 24, tmp_path)
    assert done.report["recomputed_ops"] > 0, done.output
    assert not done.said("nothing is dropped or spilled from now on"), done.output
    assert counts["switches"] == counts["read_elsewhere"] == 0


# Recorded, too: what is compared, printed, copied or moved would be waited for.
@pytest.mark.parametrize("name", nightly_but({"plain"}, ("plain", "backward_elsewhere")))
def test_what_fits_is_waited_for_nowhere(name: str, tmp_path: Path) -> None:
    done, counts = on_lanes(name, 400, tmp_path)
    assert done.said("nothing to do so far"), done.output
    assert done.report["recomputed_ops"] == 0
    waits = ("compared", "printed", "copied", "written", "read", "fills")
    assert {name: counts[name] for name in waits} == dict.fromkeys(waits, 0)
    # The recorded steps, of 12: two marks an op, of 4 blocks of 5 ops and the loss at least.
    assert 0 < counts["spans_read"] and counts["marks"] >= 2 * 3 * 4 * 5
    assert counts["marks"] < 2 * 12 * 4 * 5


# Nodes begin on a thread that has no step: the plan's events are told apart all the same, and the
# step's plan is followed. What comes back is computed on the step's lane and read on another one.
@pytest.mark.parametrize(
    "name", nightly_but({"twice_elsewhere"}, ("backward_elsewhere", "twice_elsewhere"))
)
def test_backward_on_a_thread_of_its_own(name: str, tmp_path: Path) -> None:
    done, counts = on_lanes(name, 24, tmp_path)
    assert done.report["recomputed_ops"] > 0, done.output
    assert done.report["plan"] is not None and "the step left its plan" not in done.output
    assert counts["switches"] >= 2 * counts["read_elsewhere"] > 0  # there and back, at each unpack


@pytest.mark.nightly
def test_two_lanes_keep_everything(tmp_path: Path) -> None:
    done, counts = on_lanes("two_lanes", 24, tmp_path, over_budget=True)
    assert done.output.count("nothing is dropped or spilled from now on") == 1, done.output
    # The steps before are followed by plans.
    assert done.report["recomputed_ops"] > 0, done.output
