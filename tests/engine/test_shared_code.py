"""Code that many instructions of a region have in common stands in it once."""

from __future__ import annotations

import re

from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.llvm.region import emit_region
from tests.engine.engine_helpers import program_of


def test_what_copies_read_is_recorded_by_one_function_for_each_kind() -> None:
    """Copies of one size, with and without a register that says how much they read."""
    copies = "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.cg.shared.global [%r1+512], [%rd1], 16, %r2;" * 5
    program = program_of(
        f"mov.u32 %r1, s; mov.u32 %r2, 8; ld.param.u64 %rd1, [A]; {copies} ret;", params=".param .u64 A", before=".shared .b32 s[512];"
    )
    nodes = Nodes(program.recording())
    text, _ = emit_region(nodes.program, nodes, list(range(len(nodes.nodes))), 16)
    assert sorted(re.findall(r"define internal i32 @(source_\w+)", text)) == ["source_64_16", "source_64_16_whole"]
    assert len(re.findall(r"call i32 @source_64_16\(", text)) == 5
    assert len(re.findall(r"call i32 @source_64_16_whole\(", text)) == 5
