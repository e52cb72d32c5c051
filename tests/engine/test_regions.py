"""Regions that are compiled beside each other: which are begun, and that their code is the same."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pytest

import ptxlab
from ptxlab.engine.llvm import _region_cache
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.support import compiled
from ptxlab.native import tasks
from tests.engine.engine_helpers import HEADER, program_of

BARRIER = "bar.sync 0;"


def behind(body: str) -> tuple[list[int], list[int]]:
    """Starts of the nodes that all lanes pass behind the first one, and of all nodes."""
    nodes = Nodes(program_of(body))
    return [nodes.starts[n] for n in nodes.behind_all_ways(0)], nodes.starts


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ret;", []),
        (f"{BARRIER} {BARRIER} ret;", [1, 2]),
        (f"{BARRIER} @%p1 exit; {BARRIER} ret;", [1]),
        (f"{BARRIER} @%p1 trap; {BARRIER} ret;", [1, 2, 3]),
        (f"@%p1 bra END; {BARRIER} {BARRIER} END: {BARRIER} ret;", [3, 4]),
        (f"@%p1 bra ELSE; {BARRIER} bra END; ELSE: {BARRIER} END: {BARRIER} ret;", [4, 5]),
        (f"{BARRIER} LOOP: {BARRIER} @%p1 bra LOOP; {BARRIER} ret;", [1, 2, 3, 4]),
        (f"{BARRIER} LOOP: @%p1 bra END; {BARRIER} bra LOOP; END: {BARRIER} ret;", [1, 4, 5]),
        (f"LOOP: {BARRIER} bra LOOP;", [1]),
    ],
)
def test_nodes_behind_all_ways(body: str, expected: list[int]) -> None:
    found, starts = behind(body)
    assert found == expected, starts


def test_what_a_loop_leaves_for_counts_from_within_it() -> None:
    """From the body of a loop all lanes come to its head again, from where they may go past what follows the body."""
    nodes = Nodes(program_of(f"HEAD: @%p1 bra OUT; {BARRIER} {BARRIER} @%p2 bra HEAD; {BARRIER} OUT: {BARRIER} ret;"))
    body = nodes.starts.index(2)
    assert [nodes.starts[n] for n in nodes.behind_all_ways(body)] == [3, 5, 6]


def long(*parts: str) -> str:
    """A kernel of which each part becomes a region: lanes add numbers in memory."""
    add = "ld.global.b32 %r2, [%rd1]; add.u32 %r2, %r2, 3; st.global.b32 [%rd1], %r2;\n"
    body = "\n".join(f"{part}\n{add * 210}" for part in parts)
    return f"""{HEADER}.entry k(.param .u64 out, .param .u32 n) {{
.reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<2>;
mov.u32 %r1, %tid.x; ld.param.u32 %r3, [n]; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1; setp.lt.u32 %p1, %r1, %r3;
{body}
ret; }}"""


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The first nodes of the regions that are emitted, with an empty cache."""
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    found: list[int] = []
    emit = _region_cache.emit_region

    def noted(program, nodes, numbers, width):
        found.append(numbers[0])
        return emit(program, nodes, numbers, width)

    monkeypatch.setattr(_region_cache, "emit_region", noted)
    return found


def use_threads(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many threads may compile; the process has no code yet."""
    monkeypatch.setattr(tasks, "_pool", tasks._Pool(number))
    monkeypatch.setattr(_region_cache, "_LOADED", WeakValueDictionary())
    monkeypatch.setattr(_region_cache, "_COMPILED", WeakValueDictionary())
    compiled.address_of.cache_clear()
    compiled._optimised.cache_clear()


def launch(text: str, n: int) -> tuple[list[int], ptxlab.Result]:
    out = np.zeros(32, np.uint32)
    result = ptxlab.loads(text)["k"].launch(grid=1, block=32, args=[out, n])
    return out.tolist(), result


@pytest.fixture
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    use_threads(request.param, monkeypatch)
    return int(request.param)


@pytest.mark.parametrize("number", [1, 3])
def test_the_code_of_several_threads_is_that_of_one(number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = long("", "", "", "")
    files = []
    launch(text, 32)  # what a process compiles once
    for each in (0, number):
        folder = tmp_path / str(each)
        monkeypatch.setenv("PTXLAB_CACHE_DIR", str(folder))
        use_threads(each, monkeypatch)
        out, result = launch(text, 32)
        assert (out, result.ok) == ([4 * 210 * 3] * 32, True)
        files.append({path.relative_to(folder): path.read_bytes() for path in folder.glob("*/*.o")})
    assert files[0] == files[1]


@pytest.mark.parametrize("threads", [0, 1, 3], indirect=True)
@pytest.mark.parametrize(("parts", "total", "regions"), [(("", "@!%p1 exit;", ""), 630, 2), (("", "@!%p1 bra END;", "", "END:"), 1260, 3)])
def test_what_is_not_executed_is_not_begun(threads: int, emitted: list[int], parts: tuple[str, ...], total: int, regions: int) -> None:
    """Behind an exit, and around which lanes branch."""
    out, _ = launch(long(*parts), 0)
    assert (out, len(emitted)) == ([total] * 32, regions)


@pytest.mark.parametrize("threads", [0, 1], indirect=True)
def test_the_next_regions_are_begun_before_the_first_is_complete(threads: int, emitted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[int] = []
    library = _region_cache.native.Library

    def noted(*args):
        order.append(len(emitted))
        return library(*args)

    monkeypatch.setattr(_region_cache.native, "Library", noted)
    launch(long("", "", ""), 32)
    assert order == ([3, 4, 4, 4] if threads else [1, 2, 3, 4])


@pytest.mark.parametrize("threads", [0, 1], indirect=True)
def test_a_fault_leaves_what_is_begun(threads: int, emitted: list[int]) -> None:
    text = long("", "@!%p1 trap;", "")
    assert not launch(text, 0)[1].completed
    out, result = launch(text, 32)
    assert (out, result.ok) == ([1890] * 32, True)


@pytest.mark.parametrize("threads", [0, 1], indirect=True)
def test_an_error_of_the_compiler_is_reported_and_not_kept(threads: int, emitted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ptxlab.loads(long("", ""))["k"]
    out = np.zeros(32, np.uint32)
    compile_object, errors = _region_cache.native.compile_object, [ZeroDivisionError()] * 3

    def fail(*args, **options):
        if errors:
            raise errors.pop()
        return compile_object(*args, **options)

    monkeypatch.setattr(_region_cache.native, "compile_object", fail)
    raised = 0
    for _ in range(4):
        try:
            kernel.launch(grid=1, block=32, args=[out, 32]).raise_for_errors()
            break
        except ZeroDivisionError:
            raised += 1
    assert (out.tolist(), raised) == ([1260] * 32, 3)
