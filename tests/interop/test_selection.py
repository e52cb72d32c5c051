"""Which launches run, and how many of their CTAs; and what is shown of a launch that runs for seconds."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.cli._output import ProgressLine
from ptxlab.interop.compilers import switched
from ptxlab.interop.session import Session, Settings

PTX = """.version 9.0
.target sm_100a
.address_size 64
{kernels}
"""
KERNEL = """
.visible .entry {name}(.param .u64 a) .reqntid 1 {directives}
{{
    .reg .b64 %rd<4>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [a];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], {value};
    ret;
}}
"""


def kernels(**directives: str) -> ptxlab.Module:
    names = {"fill_one": 1, "fill_two": 2, "other": 3}
    text = "".join(KERNEL.format(name=name, value=value, directives=directives.get(name, "")) for name, value in names.items())
    return ptxlab.loads(PTX.format(kernels=text))


def written(session: Session, *names: str, grid: int = 8, cluster: int | None = None) -> list[list[int]]:
    """What launches of kernels have written, each to an array of its own."""
    module, arrays = kernels(), [np.zeros(grid, np.int32) for _ in names]
    for name, array in zip(names, arrays, strict=True):
        session.launch(module[name], None, grid=(grid, 1, 1), cluster=cluster, args=[array])
    return [array.tolist() for array in arrays]


def session(text: dict[str, str]) -> Session:
    return Session(Settings.from_environment({f"PTXLAB_{name}": value for name, value in text.items()}))


@pytest.mark.parametrize(("launches", "ran"), [("3:5", (3, 4, 5)), ("2", (2,)), (":2", (1, 2)), ("5:", (5, 6)), ("9:", ())], ids=str)
def test_only_some_launches_run(launches: str, ran: tuple[int, ...]) -> None:
    found = session({"LAUNCHES": launches})
    assert written(found, *["other"] * 6, grid=1) == [[3 if number in ran else 0] for number in range(1, 7)]
    assert (found.asked, len(found.launches), found.skipped) == (6, len(ran), 6 - len(ran))


def test_kernels_are_left_out_by_name() -> None:
    found = session({"SKIP_KERNELS": "fill_*,nothing"})
    assert written(found, "fill_one", "other", "fill_two", grid=1) == [[0], [3], [0]]
    assert [launch.kernel for launch in found.launches] == ["other"]
    assert found.skipped == 2


@pytest.mark.parametrize(("limit", "cluster", "count"), [("3", None, 3), ("100", None, 8), ("4", 2, 4), ("3", 2, 2), ("1", 4, 4)], ids=str)
def test_only_the_first_ctas_run(limit: str, cluster: int | None, count: int) -> None:
    (values,) = written(session({"LIMIT_CTAS": limit}), "other", cluster=cluster)
    assert values == [3] * count + [0] * (8 - count)


def test_clusters_by_directive_are_whole() -> None:
    array = np.zeros(8, np.int32)
    kernel = kernels(other=".reqnctapercluster 4")["other"]
    session({"LIMIT_CTAS": "1"}).launch(kernel, None, grid=(8, 1, 1), args=[array])
    assert array.tolist() == [3] * 4 + [0] * 4


def test_the_first_ctas_of_a_grid_of_three_dimensions() -> None:
    result = session({"LIMIT_CTAS": "7"}).launch(kernels()["other"], None, grid=(2, 3, 4), args=[np.zeros(8, np.int32)])
    assert result.stats.ctas == 7


def test_launches_by_the_api_are_selected_too() -> None:
    array = np.zeros(8, np.int32)
    with switched(session({"LAUNCHES": "2:", "LIMIT_CTAS": "4"})) as found:
        for name in ("fill_one", "other"):
            kernels()[name].launch(8, None, 2, args=[array])
    assert array.tolist() == [3] * 4 + [0] * 4
    assert found.skipped == 1


WRONG: dict[str, tuple[str, Any, str]] = {
    "no range": ("launches", "some", "launches takes the first and the last launch, counted from 1, not 'some'"),
    "zero": ("launches", (0, 4), "launches takes the first and the last launch, counted from 1, not (0, 4)"),
    "backwards": ("launches", (4, 3), "launches takes the first and the last launch, counted from 1, not (4, 3)"),
    "an empty pattern": (
        "skip_kernels", "a,", "skip_kernels takes names of kernels or patterns such as 'fill_*', separated by commas, not 'a,'",
    ),
    "no CTAs": ("limit_ctas", 0, "limit_ctas must be an int from 1 to 1099511627776, not 0"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value", "message"), WRONG.values(), ids=WRONG)
def test_wrong_values(name: str, value: Any, message: str) -> None:
    with pytest.raises(ptxlab.LaunchError) as caught:
        Settings().changed(**{name: value})
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("A310", message)


SCRIPT = """
import numpy, ptxlab
from ptxlab.interop.session import current
kernel = ptxlab.loads(open("k.ptx").read())["other"]
for _ in range(4):
    current().launch(kernel, None, grid=(8, 1, 1), args=[numpy.zeros(8, "int32")])
"""


def test_the_summary_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX.format(kernels=KERNEL.format(name="other", value=1, directives="")))
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", "--launches", "2:3", "--limit-ctas", "4", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0
    assert done.stderr == "ptxlab: 2 launches on sm_100a (2 left out, at most 4 CTAs each), nothing found\n"


def test_a_long_launch_is_shown_and_the_line_is_cleared() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, delay=0.0, interval=0.01)
    with line.launch("gemm", 3) as note:
        note(12, 256)
        until = time.monotonic() + 20
        while "12 of 256" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    shown = stream.getvalue()
    assert "\r\x1b[Kptxlab: gemm, launch 3: 12 of 256 CTAs, 0 s" in shown
    assert shown.endswith("\r\x1b[K")
    time.sleep(0.05)
    assert stream.getvalue() == shown


def test_a_short_launch_is_not_shown() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, delay=60.0, interval=0.01)
    with line.launch("gemm", 1) as note:
        note(1, 2)
        time.sleep(0.1)
    assert stream.getvalue() == ""


def test_a_session_gives_kernel_and_number_to_what_shows_progress() -> None:
    stream = io.StringIO()
    line, shown = ProgressLine(stream), []

    def launch(kernel: str, number: int) -> Any:
        shown.append((kernel, number))
        return line.launch(kernel, number)

    found = session({"SKIP_KERNELS": "fill_*"})
    found.progress = launch
    written(found, "fill_one", "other", grid=1)
    assert shown == [("other", 2)]
    assert line._ctas == (1, 1)
