"""The processor that code is compiled for."""

from __future__ import annotations

import threading

import pytest

from ptxlab import native
from ptxlab.native import compiling_for, host, processor

from .level_helpers import AARCH64, LEVELS, X86_LEVELS

IR = "define i32 @f(i32 %x) {\n %y = mul i32 %x, 3\n ret i32 %y\n}\n"
_MACHINES = {"x86_64": 62, "aarch64": 183}
"""How the header of an object file names an architecture."""


def test_levels_have_what_their_names_say() -> None:
    assert [level.vector_bits for level in LEVELS.values()] == [128, 128, 256, 512, 512, 512, 512, 128]
    assert [level.has_half for level in LEVELS.values()] == [False, False, *[True] * 6]
    assert [level.has_pair_byte_dot for level in LEVELS.values()] == [False, *[True] * 6, False]
    assert [level.has_added_dots for level in LEVELS.values()] == [*[False] * 4, True, True, True, False]
    assert [level.has_funnel_shift for level in LEVELS.values()] == [*[False] * 5, True, True, False]
    assert [level.prefers_float64_sums for level in LEVELS.values()] == [*[False] * 6, True, False]
    assert [level.has_mxcsr for level in LEVELS.values()] == [*[True] * 7, False]


def test_float64_sums_are_not_for_processors_with_other_units_for_integers() -> None:
    level = LEVELS["AVX-512 BITALG"]
    features = dict.fromkeys((name[1:] for name in level.features.split(",")), True)
    assert processor(level.triple, "icelake-server", features).prefers_float64_sums
    assert not processor(level.triple, "znver5", features).prefers_float64_sums


def test_this_processor_is_what_llvm_finds() -> None:
    from llvmlite import binding

    here = processor(binding.get_default_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features())
    assert here == host()
    assert here.features == binding.get_host_cpu_features().flatten()


def test_another_processor_is_chosen_for_one_thread_and_for_a_time() -> None:
    here, found = host(), []
    with compiling_for(AARCH64):
        with compiling_for(X86_LEVELS["SSE4"]):
            assert host() is X86_LEVELS["SSE4"]
        assert host() is AARCH64
        thread = threading.Thread(target=lambda: found.append(host()))
        thread.start()
        thread.join()
    assert found == [here]
    assert host() == here


@pytest.mark.parametrize("level", LEVELS)
def test_object_code_is_for_the_processor(level: str) -> None:
    here = native.object_key(IR, 0, False)
    with compiling_for(LEVELS[level]):
        image = native.compile_object(IR)
        assert native.object_key(IR, 0, False) != here
        assert native.compile_object(IR) == image
    architecture = LEVELS[level].triple.partition("-")[0]
    assert int.from_bytes(image[18:20], "little") == _MACHINES[architecture]
