"""wgmma from 8 to 256 columns, dense and sparse, in a kernel of CUDA C++: ``wgmma_forms.cu``, compiled here."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from tests.isa.wgmma import bench
from tests.isa.wgmma.test_mma import A_START, B_START, BITS, accumulators, codes, place
from tests.isa.wgmma.test_sparse import CODES, metadata_words

import ptxlab
from ptxlab import numerics
from ptxlab.interop import nvcc

FOLDER = Path(__file__).parent
MOST = 128
FORM = re.compile(r'FORM\("(\.sp)?\.sync\.aligned\.m64n(\d+)k\d+\.(\w+)\.(\w+)\.(\w+)", (\d+)')
FORMS = {
    match[0]: (number, *match.groups())
    for number, line in enumerate((FOLDER / "wgmma_forms.inc").read_text().splitlines(), 1)
    if (match := FORM.match(line))
}


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(FOLDER / "wgmma_forms.cu", arch="sm_90a", fmad=False)


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str) -> None:
    line, sparse, columns, d, a, b, registers = FORMS[form]
    n, count, stored = int(columns), int(registers), 256 // BITS[a]
    rng = np.random.default_rng(crc32(form.encode()))
    A, B, C = codes(rng, a, (64, stored)), codes(rng, b, (n, stored * (2 if sparse else 1))), accumulators(rng, d, n)[0]
    image = np.zeros(bench.IMAGE, np.uint8)
    descriptors = np.array([place(image, A, A_START, "k", "64B"), place(image, B, B_START, "k", "128B")], np.uint64)
    metadata = rng.choice([4, 14] if a == "tf32" else CODES, (64, 8 if BITS[a] > 8 else 16)).astype(np.uint8) if sparse else None
    words = np.zeros(128, np.uint32) if metadata is None else metadata_words(metadata, BITS[a], 0, rng)
    held = np.zeros((128, MOST), np.uint32)
    held[:, :count] = bench.to_registers(C)
    done = module()["multiply"].launch(
        grid=1,
        block=128,
        shared_bytes=bench.IMAGE,
        args=[line, image, descriptors, words, held],
        policy=("eager", "lazy", "random")[line % 3],
    )
    assert not done.diagnostics
    want = numerics.mma(arch="wgmma", kind=None, a=a, b=b, d=d, A=A, B=B, C=C, metadata=metadata)
    assert np.array_equal(bench.from_registers(np.ascontiguousarray(held[:, :count]), n, C.dtype), want)
