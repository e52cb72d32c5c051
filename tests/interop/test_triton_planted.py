"""Mistakes planted into Gluon kernels are reported at their Python lines, under every policy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ptxlab

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import ptxlab.interop.triton  # noqa: E402
from ptxlab.diagnostics import Diagnostic  # noqa: E402
from tests.cuda.driver_helpers import needs_compiler  # noqa: E402
from tests.interop import triton_planted  # noqa: E402
from tests.sweep_helpers import spread  # noqa: E402

pytestmark = [pytest.mark.compiler, needs_compiler, pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")]
SOURCE = Path(triton_planted.__file__)
TARGETS = {"matmul": "sm_100a", "hopper_matmul": "sm_90a"}

Found = tuple[str, str] | tuple[str, str, str]

LOAD_A, LOAD_B, MMA = "tma.async_load(a_desc", "tma.async_load(b_desc", "tcgen05_mma("
WGMMA, STORE, STORED = "warpgroup_mma(a_tile", "c_tile.store(", "tma.async_store("
MISSING_LOAD_WAIT: list[Found] = [
    ("X103", LOAD_A, LOAD_A),
    ("X103", LOAD_B, LOAD_B),
    ("X103", STORE, LOAD_A),
    ("X103", STORED, LOAD_A),
    ("X116", LOAD_B),
]
PLANTED: dict[tuple[str, str], list[Found]] = {
    ("matmul", "wrong phase"): [("H601", "mbarrier.wait(done, phase)  # once more")],
    ("matmul", "wrong descriptor"): [("M402", LOAD_A)],
    ("matmul", "wrong shared-memory descriptor"): [("D704", MMA)],
    ("matmul", "missing load wait"): [("X103", MMA, LOAD_B), *MISSING_LOAD_WAIT],
    ("matmul", "missing wait"): [
        ("X106", LOAD_A, MMA),
        ("X106", LOAD_B, MMA),
        ("X105", "acc.load()", MMA),
        ("X108", MMA, "acc.load()"),
        ("X106", STORE, MMA),
    ],
    ("hopper_matmul", "wrong phase"): [("H601", "mbarrier.wait(loaded, phase)  # once more")],
    ("hopper_matmul", "wrong descriptor"): [("M402", LOAD_A)],
    ("hopper_matmul", "missing load wait"): [("X103", WGMMA, LOAD_A), *MISSING_LOAD_WAIT],
    ("hopper_matmul", "missing wait"): [
        ("R805", STORE),
        ("X110", LOAD_A, WGMMA),
        ("X110", LOAD_B, WGMMA),
        ("X110", STORE, WGMMA),
        ("X116", WGMMA),
    ],
}
"""The code, the statement at fault, and the earlier one of a race: all that is found, in order."""


@pytest.fixture(autouse=True, scope="module")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("triton")
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield folder


def statement(kernel: str, line: int) -> str:
    """The statement of the kernel on a line of the file, by what names it in the table."""
    function = getattr(triton_planted, kernel)
    text = SOURCE.read_text().splitlines()[line - 1]
    assert function.starting_line_number <= line < function.starting_line_number + len(function.raw_src)
    names = {part for rows in PLANTED.values() for row in rows for part in row[1:]}
    return next((name for name in names if name in text), text.strip())


def shown(kernel: str, diagnostics: list[Diagnostic]) -> list[Found]:
    """What was found, each once."""
    found: dict[Found, None] = {}
    for diagnostic in diagnostics:
        assert diagnostic.source is not None
        assert diagnostic.source.file == str(SOURCE)
        earlier = dict(diagnostic.details).get("earlier, in the source")
        rest = () if earlier is None else (statement(kernel, int(earlier.rpartition(":")[2])),)
        found[diagnostic.code, statement(kernel, diagnostic.source.line), *rest] = None  # type: ignore[index]
    return list(found)


def findings(kernel: str, bug: str, policy: str) -> list[Diagnostic]:
    with ptxlab.interop.triton.device(TARGETS[kernel], check="all", policy=policy, seed=3, report=lambda _: None) as session:
        try:
            found, right = triton_planted.run(getattr(triton_planted, kernel), bug)
        except ptxlab.KernelError:
            assert session.diagnostics
        else:
            assert torch.equal(found, right)
    return session.diagnostics


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("kernel", TARGETS)
def test_nothing_is_reported_without_a_mistake(kernel: str, policy: str) -> None:
    assert not findings(kernel, "none", policy)


@pytest.mark.parametrize(
    ("planted", "policy"), spread(3, PLANTED, ["eager", "lazy", "random"]), ids=lambda x: x if type(x) is str else ", ".join(x)
)
def test_mistake(planted: tuple[str, str], policy: str) -> None:
    kernel, bug = planted
    found = shown(kernel, findings(kernel, bug, policy))
    if (kernel, bug) == ("matmul", "missing wait"):  # the end of the kernel frees the accumulator that is still being written
        assert found.pop()[:2] in {(code, "def matmul(a_desc, b_desc, c_desc, K, BUG: gl.constexpr):") for code in ("X105", "T612")}
    assert found == PLANTED[kernel, bug]


@pytest.mark.parametrize(("kernel", "bug"), [("matmul", "wrong shared-memory descriptor"), ("hopper_matmul", "missing wait")])
def test_under_exec(triton_cache: Path, kernel: str, bug: str) -> None:
    options = ["exec", "--json", "--target", TARGETS[kernel]]
    command = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", *options, str(SOURCE), kernel, bug]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    first, *_ = json.loads(done.stdout)["diagnostics"]
    code, where, *_ = PLANTED[kernel, bug][0]
    assert first["code"] == code
    assert first["source"]["file"] == str(SOURCE)
    assert statement(kernel, first["source"]["line"]) == where
