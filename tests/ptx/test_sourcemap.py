"""Lines of PTX to places in the source, through inlining."""

from __future__ import annotations

from ptxlab.diagnostics import Place
from ptxlab.ptx import SourceMap, parse

TEXT = """.version 9.0
.target sm_100a
.func f {
  mov.b32 a, 0;
  .loc 1 10 5
  mov.b32 a, 1;
  .loc 1 27 3
  .loc 1 10 6, function_name .debug_str, inlined_at 1 27 3
  .loc 2 15 3, function_name .debug_str+16, inlined_at 1 10 6
L:
  mov.b32 a, 2; mov.b32 a, 3;
  {
    .loc 1 0 9
    mov.b32 a, 4;
  }
  .loc 3 1 1
  mov.b32 a, 5;
}
.func g {
  ret;
}
.func h { ret; }
.file 1 "dir/kernel.py"
.file 2 "a\\\\b\\"c\\303\\251.py"
"""


def test_lines() -> None:
    module = parse(TEXT, "k.ptx")
    source = SourceMap(module)
    inner = Place('a\\b"cé.py', 15, 3)
    chain = (Place("dir/kernel.py", 10, 6), Place("dir/kernel.py", 27, 3))
    assert source.at(1) is None
    assert source.at(4) is None
    assert source.at(6) == Place("dir/kernel.py", 10, 5)
    assert source.inlined(6) == ()
    assert source.at(11) == inner
    assert source.inlined(11) == chain
    assert source.at(14) == inner  # line 0 stands for no line: the last one stays
    assert source.inlined(14) == chain
    assert source.at(17) == Place("<file 3>", 1, 1)
    assert source.at(20) is None
    assert source.at(22) is None
    assert source.at(10**9) is None
    assert source.at(-1) is None


def test_instructions() -> None:
    module = parse(TEXT)
    source = SourceMap(module)
    inner = Place('a\\b"cé.py', 15, 3)
    expected = (None, Place("dir/kernel.py", 10, 5), inner, inner, inner, Place("<file 3>", 1, 1))
    assert source.instructions(module.functions["f"]) == expected
    assert source.instructions(module.functions["g"]) == (None,)


def test_prototype_has_no_instructions() -> None:
    module = parse(".version 9.0 .target sm_90 .extern .func f;")
    assert SourceMap(module).instructions(module.functions["f"]) == ()


def test_inlining_into_itself_ends() -> None:
    text = ".version 9.0 .target sm_90 .func f {\n" + ".loc 1 2 3, inlined_at 1 2 3\nret;\n" * 1000 + "}"
    assert len(SourceMap(parse(text)).inlined(2000)) == 256


def test_lines_of_inline_assembly_are_no_lines_of_the_source() -> None:
    text = """.version 9.0
.target sm_100a
.entry k {
 .loc 1 42 9
 // begin inline asm
 {
 .loc 1 46 9
 mov.b32 %r1, 0;
 }
 // end inline asm
 mov.b32 %r1, 1;
 .loc 1 44 3
 mov.b32 %r1, 2;
 // end inline asm
 .loc 1 50 3
 ret;
}
.file 1 "kernel.py"
"""
    found = SourceMap(parse(text))
    assert [place.line for line in (8, 11, 13, 16) if (place := found.at(line))] == [42, 42, 44, 50]


def test_headers_of_libraries_are_skipped() -> None:
    """Code of a header stands for the line that it was inlined at; a kernel that stands in a header keeps its own line."""
    module = parse(""".version 9.0
.target sm_100a
.func f {
  .loc 1 27 3
  .loc 2 15 3, function_name .debug_str, inlined_at 1 27 3
  .loc 3 40 1, function_name .debug_str+16, inlined_at 2 15 3
  ret;
  .loc 2 8 1
  ret;
}
.file 1 "gemm.cu"
.file 2 "/opt/library/include/barrier.h"
.file 3 "/opt/library/include/ptx.h"
""")
    source = SourceMap(module)
    assert source.at(7) == Place("gemm.cu", 27, 3)
    assert source.inlined(7) == (Place("/opt/library/include/barrier.h", 15, 3), Place("gemm.cu", 27, 3))
    assert source.at(9) == Place("/opt/library/include/barrier.h", 8, 1)
    assert source.callers(7) == source.callers(9) == ()
