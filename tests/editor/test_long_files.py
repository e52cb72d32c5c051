"""Long files in the editor: the time and the work for all findings."""

from __future__ import annotations

import sys
import time
from itertools import count
from types import FrameType

import pytest

pytest.importorskip("pygls")

from benchmarks.unrolled import unrolled
from benchmarks.workloads import KERNELS

from ptxlab.editor._document import Document
from tests.editor.client_helpers import long_text
from tests.time_helpers import processor_seconds, quickest


def test_a_long_file_is_checked_in_time() -> None:
    text = long_text()
    assert text.count("\n") > 5000
    numbers = count(9000)

    def check() -> None:
        assert Document(text.replace("%r6, 1;", f"%r6, {next(numbers)};")).diagnostics()

    assert quickest(lambda: processor_seconds(check), 0.2) < 0.2


BUSY = 3
"""How many times slower a processor may be that other programs use."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lines"), [("flash_causal_fp16", 4000), ("flash_ws_fp16", 3400), ("mm_gelu_bf16", 4500)])
def test_an_edit_of_a_long_kernel_with_tensor_cores(name: str, lines: int) -> None:
    """All findings of the edited text, those along the paths included, in processor time."""
    text = unrolled((KERNELS / f"{name}.ptx").read_text(), lines)
    assert text.count("\n") > 5000
    document, times = Document(text), []
    for number in range(4):
        document.diagnostics()
        begin = time.process_time()
        document = Document(text.replace("DONE:\n", f"mov.u32 %one, {number};\nDONE:\n"), before=document)
        document.diagnostics(dataflow=False)
        document.diagnostics()
        times.append(time.process_time() - begin)
    assert min(times) < 0.2 * BUSY


@pytest.mark.parametrize(("name", "lines", "most"), [("flash_causal_fp16", 4000, 220), ("flash_ws_fp16", 3400, 280)])
def test_the_work_for_an_edit_of_a_long_kernel(name: str, lines: int, most: int) -> None:
    """All findings of the edited text, in calls of functions for each line, which do not depend on the machine as time does.

    In ``flash_ws_fp16`` warps have different roles: there are twelve classes of threads.
    """
    text = unrolled((KERNELS / f"{name}.ptx").read_text(), lines)
    assert text.count("\n") > 5000
    before = Document(text)
    before.diagnostics()
    after = Document(text.replace("DONE:\n", "mov.u32 %one, 1;\nDONE:\n"), before=before)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    known = sys.getprofile()
    sys.setprofile(count)
    try:
        after.diagnostics()
    finally:
        sys.setprofile(known)
    assert 0 < calls < most * text.count("\n")
