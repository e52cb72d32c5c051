"""Settings of all tests."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import settings

# Examples take longer while other processes use the machine: time is limited for whole tests, by pytest-timeout.
settings.register_profile("no deadline", settings(), deadline=None)
settings.load_profile("no deadline")

LONGEST = (
    "end_to_end/cutlass_cpp/test_gemm.py",
    "interop/torch_device/test_device.py",
    "end_to_end/cute/test_dense.py",
    "end_to_end/triton/test_kernels.py",
    "end_to_end/cuda/test_tcgen05_mma.py",
    "silicon/test_kit.py",
    "debug/test_back.py",
    "end_to_end/cute/test_kernels.py",
    "cli/test_exec.py",
    "hardware/test_scalar_h200.py",
    "interop/torch_device/test_programs.py",
    "check/test_all_verdicts.py",
    "end_to_end/fuzz/test_fuzz.py",
    "end_to_end/triton/test_build.py",
    "end_to_end/examples/test_triton.py",
    "check/race/test_mutations.py",
    "cuda/test_programs.py",
    "docs/test_site.py",
    "check/operands/test_stored_parts.py",
    "benchmarks/test_mutations.py",
    "cuda/test_sequences.py",
    "view/test_report.py",
)
"""Files that take long on their own. The device of torch is compiled in the second one, before others need it: of two processes that need
it at once each would compile it."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes, none is left alone with a file that takes long: such files come first."""
    if hasattr(config, "workerinput"):
        places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """The garbage collector leaves out the million objects that the collection of all tests has made."""
    gc.collect()
    gc.freeze()
