"""Small host functions and kernels for the tests of the interface."""

from __future__ import annotations

import dataclasses

import cutlass
import cutlass.cute as cute

THREADS = 128


@cute.kernel
def scale_kernel(source: cute.Tensor, target: cute.Tensor, factor: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(source):
        target[i] = (source[i].to(cutlass.Float32) * factor).to(target.element_type)


@cute.jit
def scale(source: cute.Tensor, target: cute.Tensor, factor: cutlass.Float32):
    scale_kernel(source, target, factor).launch(grid=(cute.ceil_div(cute.size(source), THREADS), 1, 1), block=(THREADS, 1, 1))


@cute.jit
def scale_twice(source: cute.Tensor, target: cute.Tensor, factor: cutlass.Float32, times: cutlass.Constexpr):
    for _ in cutlass.range_constexpr(times):
        scale_kernel(source, target, factor).launch(grid=(cute.ceil_div(cute.size(source), THREADS), 1, 1), block=(THREADS, 1, 1))
        scale_kernel(target, source, factor).launch(grid=(cute.ceil_div(cute.size(source), THREADS), 1, 1), block=(THREADS, 1, 1))


@dataclasses.dataclass
class Ends:
    source: cute.Tensor
    target: cute.Tensor


@cute.jit
def scale_ends(ends: Ends, factor: cutlass.Float32):
    scale(ends.source, ends.target, factor)


class Pair:
    """Two tensors, of which CuTe DSL knows by its protocols alone."""

    def __init__(self, first, second):
        self.parts = first, second

    def __c_pointers__(self):
        return [pointer for part in self.parts for pointer in part.__c_pointers__()]

    def __get_mlir_types__(self):
        return [kind for part in self.parts for kind in part.__get_mlir_types__()]

    def __extract_mlir_values__(self):
        return [value for part in self.parts for value in part.__extract_mlir_values__()]

    def __new_from_mlir_values__(self, values):
        return Pair(*(part.__new_from_mlir_values__([value]) for part, value in zip(self.parts, values, strict=True)))


@cute.jit
def scale_pair(pair: Pair, factor: cutlass.Float32):
    scale(*pair.parts, factor)


@cute.jit
def scale_at(source: cute.Pointer, target: cute.Pointer, count: cutlass.Int32, factor: cutlass.Float32):
    scale(cute.make_tensor(source, cute.make_layout(count)), cute.make_tensor(target, cute.make_layout(count)), factor)


@cute.kernel
def past_the_end_kernel(target: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    target[thread] = cutlass.Float32(1)


@cute.jit
def past_the_end(target: cute.Tensor):
    past_the_end_kernel(target).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))
    past_the_end_kernel(target).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


@cute.jit
def nothing(target: cute.Tensor):
    pass


@cute.jit
def cooperative(source: cute.Tensor, target: cute.Tensor, factor: cutlass.Float32):
    scale_kernel(source, target, factor).launch(grid=(1, 1, 1), block=(THREADS, 1, 1), cooperative=True)


@cute.kernel
def rows_kernel(source: cute.Tensor, target: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    target[block, thread] = source[block, thread] + cutlass.Float32(block)


@cute.jit
def rows(source: cute.Tensor, target: cute.Tensor):
    rows_kernel(source, target).launch(grid=(source.shape[0], 1, 1), block=(source.shape[1], 1, 1))
