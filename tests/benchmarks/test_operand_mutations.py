"""The mutation benchmark of operands: what it changes, and what its verdicts say."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.mutations.judge import Unsound
from benchmarks.mutations.operands.judge import UNTYPED, Verdict, judge
from benchmarks.mutations.operands.mutants import Mutant, map_change, mutants
from benchmarks.mutations.operands.taken import A, B, copies, products, record

import ptxlab
from ptxlab.descriptors import decode_tensor_map, replace_field
from ptxlab.engine import Executable
from tests.check.operands import scaled_kernels, sparse_kernels
from tests.check.operands.word_kernels import TEXT, mistaken


class Launch:
    """A launch of the kernel of ``word_kernels``, from the same values each time."""

    def __init__(self, text: str = TEXT, dtype: str = "float16") -> None:
        self.kernel = ptxlab.loads(text, file="product.ptx").kernel()
        self.args = [np.random.default_rng(5).integers(-4, 5, (128, 128)).astype(np.float16).view(dtype), np.zeros((128, 64), np.float32)]
        self.case = SimpleNamespace(args=self.args)

    def launch(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.args[1][...] = 0
        result = self.kernel.launch(block=128, args=self.args, **options)
        return result, {"c": self.args[1].copy()}


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    made = Launch()
    return list(judge("product", made.kernel, made))


def test_what_is_recorded() -> None:
    made = Launch()
    (mma,) = products(made.kernel.program)
    assert copies(made.kernel.program) == []

    def run(program: Any) -> None:
        with made.kernel.replaced(program, Executable(program)):
            made.launch(check=())

    taken = record(run, made.kernel.program)
    assert [index for _, index, _ in taken.values] == [mma.index] * 4
    first = taken.distinct(mma.index, A)[0]
    assert taken.distinct(mma.index, B) == taken.distinct(mma.index, A) == [first + 2 * i for i in range(4)]
    found = list(mutants(made.kernel.program, taken))
    assert {m.operator for m in found} == {
        "swizzle",
        "stride",
        "leading",
        "start",
        "K step",
        "type",
        "major",
        "type of D",
        "M",
        "N",
        "tcgen05.ld column",
        "tcgen05.ld shape",
    }
    assert all(m.lines == (mma.line,) for m in found if not m.operator.startswith("tcgen05.ld"))


def test_those_that_change_the_result_are_reported(verdicts: list[Verdict]) -> None:
    # B is half of the rows of a tile: with another start it takes other ones, of which nothing says that they are wrong.
    survived = {(v.mutant.operator, v.mutant.how) for v in verdicts if v.state == "survived"}
    assert survived == {("start", "B: 32 bytes later"), ("start", "B: 1024 bytes later")}
    reported = [v for v in verdicts if v.state == "reported"]
    assert sum(v.proposed for v in reported) > 0.85 * len(reported)
    harmless = {v.mutant.operator for v in verdicts if v.state == "harmless"}
    assert harmless == {"leading"}, "K-major operands in one row of 128 bytes have no leading dimension"


def test_a_mutant_is_what_its_name_says(verdicts: list[Verdict]) -> None:
    (found,) = (v for v in verdicts if (v.mutant.operator, v.mutant.how) == ("stride", "A: 1024 -> 512"))
    assert found.codes[0] == "O102"
    assert any("set the stride dimension byte offset to 1024" in fix for fix in found.fixes)


def test_a_proposal_of_another_value_does_not_count() -> None:
    made = Launch()

    def stride(mutant: Mutant) -> bool:
        return mutant.how == "A: 1024 -> 512"

    (found,) = judge("product", made.kernel, made, stride)
    assert found.proposed
    assert not re.search(found.mutant.proposal, "set the stride dimension byte offset to 10240")


class ScaledLaunch:
    """A launch of the kernel of ``scaled_kernels``, from the same values each time."""

    def __init__(self) -> None:
        self.kernel = ptxlab.loads(scaled_kernels.TEXT, file="scaled.ptx").kernel()
        self.args = scaled_kernels.arguments()
        self.case = SimpleNamespace(args=self.args)

    def launch(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.args[-1][...] = 0
        result = self.kernel.launch(block=128, args=self.args, **options)
        return result, {"c": self.args[-1].copy()}


def test_mutants_of_scale_factors() -> None:
    made = ScaledLaunch()
    found = list(judge("scaled", made.kernel, made, lambda mutant: mutant.operator.startswith("scale factor")))
    assert {v.mutant.operator for v in found} == {"scale factor id", "scale factor column", "scale factor layout"}
    assert not [v for v in found if v.state == "survived"]
    assert all(v.proposed for v in found if v.state == "reported" and v.mutant.operator != "scale factor column")


def test_mutants_of_tensor_loads() -> None:
    made = Launch()
    found = list(judge("product", made.kernel, made, lambda mutant: mutant.operator.startswith("tcgen05.ld")))
    assert [(v.mutant.operator, v.mutant.how) for v in found] == [
        ("tcgen05.ld column", "32x32b.x64: 8 columns later"),
        ("tcgen05.ld shape", "32x32b.x64 -> 16x64b.x64"),
    ]
    assert [v.state for v in found] == ["reported", "reported"]


def test_types_behind_bytes_are_counted_apart() -> None:
    made = Launch(dtype="uint8")
    found = list(judge("product", made.kernel, made, lambda mutant: mutant.operator in ("type", UNTYPED)))
    assert found
    assert {v.mutant.operator for v in found} == {UNTYPED}


def test_a_kernel_with_findings_has_no_mutants() -> None:
    made = Launch(mistaken("swizzle 64B")[0])
    with pytest.raises(Unsound, match="O101"):
        next(judge("product", made.kernel, made))


def test_metadata() -> None:
    """The address of the metadata and the sparsity selector are changed."""
    kernel = ptxlab.loads(sparse_kernels.TEXT).kernel()
    args = [np.zeros((128, 128), np.float16), np.full(128, sparse_kernels.FIRST_TWO, np.uint32), np.zeros((128, 64), np.float32)]
    made = SimpleNamespace(case=SimpleNamespace(args=args), launch=lambda **o: (kernel.launch(block=128, args=args, **o), {"c": args[2]}))
    found = list(judge("sparse", kernel, made, lambda mutant: mutant.operator in ("metadata column", "sparsity selector")))
    assert {(v.mutant.operator, v.mutant.how) for v in found} == {
        ("metadata column", "1 columns later"),
        ("metadata column", "2 columns later"),
        ("sparsity selector", "0 -> 1"),
    }


def test_maps_of_other_launches() -> None:
    """The address differs, and so do bytes that mean nothing; a map of another box is another one."""
    raw, moved, other = bytearray(128), bytearray(128), bytearray(128)
    for each, box, address in ((raw, 64, 0x1000), (moved, 64, 0x8000), (other, 32, 0x1000)):
        for name, ordinal, value in (("rank", None, 1), ("box_dim", 1, box), ("global_address", None, address)):
            replace_field(each, name, ordinal, value)
    moved[-1] = 7
    new = bytearray(raw)
    replace_field(new, "swizzle_mode", None, 3)
    change = map_change(bytes(raw), bytes(new))
    found = decode_tensor_map(change(0, bytes(moved)))
    assert (found.swizzle_mode.mode, found.address, found.box) == (3, 0x8000, (1, 64))
    assert change(0, bytes(other)) == bytes(other)
