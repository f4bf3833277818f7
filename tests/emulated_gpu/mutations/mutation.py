"""A fault that is put into the product's CUDA side, and the test that must find it.

`text` stands once in `file`, and `replacement` takes its place. Each entry is a fault that a
change could make: what it does to no program, a test cannot find, and has no place here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class OnGpu:
    """A C++ test on the emulated GPU, in one schedule (docs/gpu.md)."""

    target: str
    test: str  # as --gtest_filter takes it
    schedule: str = "lazy"


@dataclass(frozen=True)
class OnHost:
    """A C++ test that needs no GPU."""

    target: str
    test: str


@dataclass(frozen=True)
class EndToEnd:
    """A test of tests/e2e."""

    test: str  # as pytest takes it


Test = OnGpu | OnHost | EndToEnd


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    text: str
    replacement: str
    test: Test


CUDA = "plugin/src/cuda/"
DRIVER = "allocator/cuda/"
PLUGIN = "plugin/src/"


def executor(test: str, schedule: str = "lazy") -> OnGpu:
    return OnGpu("executor_gpu_test", f"ExecutorGpuTest.{test}", schedule)


def contents(test: str, schedule: str = "lazy") -> OnGpu:
    return OnGpu("executor_gpu_test", f"*DeviceContentsTest.{test}/*", schedule)


def pages(test: str, schedule: str = "lazy") -> OnGpu:
    return OnGpu("gpu_test", f"GpuTest.{test}", schedule)


def allocator(test: str) -> OnHost:
    return OnHost("cuda_adapter_test", test)


def trained(about: str, test: str) -> EndToEnd:
    return EndToEnd(f"tests/e2e/test_gpu_{about}.py::{test}")


def in_a_budget(program: str) -> EndToEnd:
    return trained("bits", f"test_same_bits_in_less_memory[{program}]")


def deviating(variant: str) -> EndToEnd:
    """On the host."""
    return EndToEnd(f"tests/e2e/test_deviations.py::test_same_bits[{variant}]")
