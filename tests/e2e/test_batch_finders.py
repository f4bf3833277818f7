"""Programs that catch what Ebbtide raises: batch-size finders, and loops that skip a batch."""

import re
from pathlib import Path

import pytest
from processes import Finished, Program, run, script

PROGRAM = "tests/e2e/batch_finders.py"
BUDGET = {"EBBTIDE_BUDGET": "40MiB"}  # parameters, gradients and AdamW's state are 25.1 MiB of it
REFUSED = "it is too small for this program, which needs "


def found(rows: int, folder: Path) -> Finished:
    """Every rule recognises each error; each size was judged by steps of its own."""
    done = run(script(PROGRAM, "find", "--rows", str(rows)), BUDGET, folder)
    done = done.succeeded(over_budget=True)
    for error in done.results[0]["errors"]:
        assert set(error["rules"]) == {"accelerate", "lightning", "trainer"}
        assert all(error["rules"].values()), error
        assert 1 <= error["steps"] <= 3, error
    return done


def needs(error: dict) -> float:
    """MiB, of a refusal."""
    said = re.search(REFUSED + r"([\d.]+) MiB\.", error["text"])
    assert said, error
    return float(said[1])


# Two or three steps of 16,384 rows, and of each half, take most of its 17 s.
def test_it_ends_at_the_largest_power_of_two_that_trains(tmp_path: Path) -> None:
    """At 4,096 rows an operation has three blocks of 8 MiB; a refusal is of its own size alone."""
    done = found(16384, tmp_path / "found")
    result = done.results[0]
    assert result["rows"] == 2048, done.output
    assert [error["rows"] for error in result["errors"]] == [16384, 8192, 4096]
    needed = [needs(error) for error in result["errors"]]
    assert needed == sorted(needed, reverse=True) and needed[-1] > 40, needed
    plain = run(script(PROGRAM, "find", "--rows", "2048"), {}, tmp_path / "plain").succeeded()
    assert plain.results[0] == result | {"errors": []}


def test_a_batch_that_no_base_tells_of_is_judged_by_its_own_steps(tmp_path: Path) -> None:
    """Twice the rows need twice as much but for parameters: 40, 20 and 10 MiB."""
    find = ("find", "--normed", "--rows")
    budget = {"EBBTIDE_BUDGET": "14MiB"}
    done = run(script(PROGRAM, *find, "8192"), budget, tmp_path / "found")
    result = done.succeeded(over_budget=True).results[0]
    assert result["rows"] == 2048, done.output
    assert [error["rows"] for error in result["errors"]] == [8192, 4096]
    large, small = (needs(error) for error in result["errors"])
    assert 40 < large < 42 and 20 < small < 22, done.output
    plain = run(script(PROGRAM, *find, "2048"), {}, tmp_path / "plain").succeeded()
    assert plain.results[0] == result | {"errors": []}


# Some 30 s: it is refused more than 16 times, each time after two steps or three.
def test_one_that_takes_a_tenth_off_has_as_many_sizes_as_it_needs(tmp_path: Path) -> None:
    """A row needs 5 KiB, as 4,096 need 20 MiB: 14 MiB hold some 2,700 beside the parameters. From
    32,768 rows 24 tenths lead to 2,609. The last size that is refused does not train by its own
    start either, and the one that is found does."""
    find = ("find", "--normed", "--tenth", "--rows")
    budget = {"EBBTIDE_BUDGET": "14MiB"}
    done = run(script(PROGRAM, *find, "32768"), budget, tmp_path / "found")
    result = done.succeeded(over_budget=True).results[0]
    needed = [needs(error) for error in result["errors"]]
    assert len(needed) > 16 and needed == sorted(needed, reverse=True), done.output
    refused, trains = result["errors"][-1]["rows"], result["rows"]
    assert 2048 <= trains == refused * 9 // 10 < refused < 4096, done.output
    again = run(script(PROGRAM, *find, str(refused)), budget, tmp_path / "refused")
    result = again.succeeded(over_budget=True).results[0]
    assert [error["rows"] for error in result["errors"]] == [refused], again.output
    alone = run(script(PROGRAM, *find, str(trains)), budget, tmp_path / "alone").succeeded()
    assert alone.results[0] == result | {"errors": []}


def test_by_their_own_starts_it_trains_and_twice_as_much_does_not(tmp_path: Path) -> None:
    alone = run(script(PROGRAM, "find", "--rows", "2048"), BUDGET, tmp_path / "alone").succeeded()
    assert alone.results[0]["rows"] == 2048 and not alone.results[0]["errors"], alone.output
    result = found(4096, tmp_path / "twice").results[0]
    assert [error["rows"] for error in result["errors"]] == [4096]
    assert needs(result["errors"][0]) > 40
    assert result | {"errors": []} == alone.results[0]


@pytest.mark.nightly  # the one that halves it stands for it
def test_one_that_doubles_the_batch_ends_there_too(tmp_path: Path) -> None:
    """Two sizes have held the budget: the third fails in its first step, and that is no verdict."""
    done = run(script(PROGRAM, "grow", "--rows", "512"), BUDGET, tmp_path / "grown").succeeded()
    result = done.results[0]
    (error,) = result.pop("errors")
    assert (result["rows"], error["rows"]) == (2048, 4096), done.output
    assert all(error["rules"].values()), error
    plain = run(script(PROGRAM, "find", "--rows", "2048"), {}, tmp_path / "plain").succeeded()
    assert result | {"errors": []} == plain.results[0]


def finder(name: str, *rows: int) -> Program:
    return script("tests/e2e/real_finders.py", name, *map(str, rows))


def check_alone(name: str, trains: int, refused: int, folder: Path) -> None:
    """By their own starts, which no other size came before. One is never over the budget."""
    done = run(finder(name, trains), BUDGET, folder / "trains", out=False).succeeded()
    assert f"ends at {trains}\n" in done.output and REFUSED not in done.output, done.output
    done = run(finder(name, refused), BUDGET, folder / "refused", out=False)
    assert done.status == 1 and REFUSED in done.output, done.output


# accelerate, and the Trainer by way of it, take a tenth off at each error; Lightning doubles. The
# Trainer keeps more than the net: 2,048 rows do not train.
@pytest.mark.nightly  # tests above follow their rules; these have some 20 sizes to try
@pytest.mark.parametrize(
    ("name", "package", "power"),
    [
        ("accelerate", "accelerate", 2048),
        ("halving", "accelerate", 2048),
        ("trainer", "accelerate", 1024),
        ("lightning", "lightning", 2048),
    ],
)
def test_finders_of_other_packages_end_where_a_batch_trains(
    name: str, package: str, power: int, tmp_path: Path
) -> None:
    """The size found trains alone, and the next larger one that was tried does not. No power of two
    lies between them: `power` is the largest that trains, and halves and doubles end at it."""
    pytest.importorskip(package)
    done = run(finder(name), BUDGET, tmp_path, out=False).succeeded(over_budget=True)
    (found,) = map(int, re.findall(r"^ends at (\d+)$", done.output, re.M))
    (sizes,) = re.findall(r"^tried ([\d ]+)$", done.output, re.M)
    larger = min(size for size in map(int, sizes.split()) if size > found)
    assert power <= found < larger <= 2 * power, done.output
    assert found == power or name in ("accelerate", "trainer"), done.output
    check_alone(name, found, larger, tmp_path)


def test_a_batch_that_is_skipped_changes_no_other(tmp_path: Path) -> None:
    """A large batch fails in its third layer: once before a plan is followed, once after that."""
    large = ("3", "9")
    tried = script(PROGRAM, "skip", "--large", *large)
    done = run(tried, {"EBBTIDE_BUDGET": "14MiB"}, tmp_path / "tried").succeeded()
    result = done.results[0]
    skipped = result.pop("skipped")
    assert [f"{error['batch']}" for error in skipped] == [*large], done.output
    assert all("32.0 MiB asked for by aten::addmm" in error["text"] for error in skipped)
    assert len(result["losses"]) == done.report["steps"] == 12
    assert 7 <= done.report["followed_steps"] <= 9, done.output  # not before batch 3
    left_out = script(PROGRAM, "skip", "--left-out", *large)
    plain = run(left_out, {}, tmp_path / "left-out").succeeded()
    assert result | {"skipped": []} == plain.results[0]
