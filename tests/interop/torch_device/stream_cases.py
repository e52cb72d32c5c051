"""Programs whose operators and kernels are in streams of torch: what nothing orders, and what is in order.

``python -m tests.interop.torch_device.stream_cases`` runs them in this process, and prints a JSON line with the messages of each.
"""

from __future__ import annotations

import ctypes
import json
import traceback
from collections.abc import Callable
from typing import Any

import ptxlab.cuda
import ptxlab.interop.torch
from ptxlab.interop.session import Session, Settings

RIGHT: dict[str, Callable[[], None]] = {}
WRONG: dict[str, tuple[Callable[[], None], str]] = {}
SESSION = Session(Settings(target="sm_100a", keep_going=True), report=lambda _: None)
DOUBLE = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry twice(.param .u64 target, .param .u64 source) {
  .reg .b32 %r<2>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [target];
  ld.param.u64 %rd2, [source];
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  mad.wide.u32 %rd2, %r1, 4, %rd2;
  ld.global.f32 %f1, [%rd2];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""


def right(function: Callable[[], None]) -> Callable[[], None]:
    """The program is in order: nothing is found."""
    RIGHT[function.__name__] = function
    return function


def wrong(message: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The program has one finding, whose message has these words, with the numbers of bytes and streams left out."""

    def keep(function: Callable[[], None]) -> Callable[[], None]:
        WRONG[function.__name__] = function, message
        return function

    return keep


def launch(target: Any, source: Any, stream: Any) -> None:
    """Launch a kernel that stores twice the source, in 8 threads."""
    library, module, function = ptxlab.cuda.install(lambda: SESSION).library, ctypes.c_void_p(), ctypes.c_void_p()
    assert library.cuModuleLoadData(ctypes.byref(module), DOUBLE.encode()) == 0
    assert library.cuModuleGetFunction(ctypes.byref(function), module, b"twice") == 0
    values = [ctypes.c_uint64(tensor.data_ptr()) for tensor in (target, source)]
    pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    assert library.cuLaunchKernel(function, 1, 1, 1, 8, 1, 1, 0, ctypes.c_void_p(stream.cuda_stream), pointers, None) == 0


def side() -> Any:
    return torch.cuda.Stream()


@wrong("aten::mul.Tensor reads, aten::fill_.Scalar writes")
def an_operator_reads_what_one_of_another_stream_writes() -> None:
    x = torch.ones(8, device="cuda")
    with torch.cuda.stream(side()):
        x * 2


@right
def streams_that_wait_for_each_other() -> None:
    x, stream = torch.ones(8, device="cuda"), side()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x * 2
    torch.cuda.current_stream().wait_stream(stream)
    assert (y + 1).tolist() == [3] * 8


@wrong("kernel twice reads, aten::fill_.Scalar writes")
def a_kernel_reads_what_an_operator_of_another_stream_writes() -> None:
    x, y = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
    launch(y, x, side())


@wrong("aten::add.Tensor reads, kernel twice writes")
def an_operator_reads_what_a_kernel_of_another_stream_writes() -> None:
    x, y = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
    torch.cuda.synchronize()
    launch(y, x, side())
    y + 1


@wrong("aten::add_.Tensor writes, kernel twice reads")
def an_operator_overwrites_what_a_kernel_of_another_stream_reads() -> None:
    x, y = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
    torch.cuda.synchronize()
    launch(y, x, side())
    x += 1


@right
def operators_and_kernels_of_one_stream() -> None:
    stream = side()
    with torch.cuda.stream(stream):
        x, y = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
        for _ in range(3):
            launch(y, x, stream)
            x.copy_(y)
        assert (x + y).tolist() == [16] * 8


@right
def an_event_orders_a_kernel_and_an_operator() -> None:
    stream, done = side(), torch.cuda.Event()
    x, y = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    launch(y, x, stream)
    done.record(stream)
    torch.cuda.current_stream().wait_event(done)
    assert (y + 1).tolist() == [3] * 8


@wrong("aten::copy_ reads, aten::mul.Tensor writes")
def a_copy_to_the_host_in_the_wrong_stream() -> None:
    x = torch.ones(8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side()):
        y = x * 2
    y.cpu()


@right
def the_host_waits_for_a_copy() -> None:
    x = torch.ones(8, device="cuda")
    assert x.cpu().tolist() == [1] * 8
    with torch.cuda.stream(side()):
        x + torch.ones(8).to("cuda")


@wrong("aten::add.Tensor reads, aten::copy_ writes")
def the_host_does_not_wait_for_a_copy_from_pinned_memory() -> None:
    source = torch.ones(8).pin_memory()
    x = source.to("cuda", non_blocking=True)
    with torch.cuda.stream(side()):
        x + 1


@right
def the_host_waits_for_values() -> None:
    for wait in (lambda x: x.sum().item(), lambda x: x.nonzero(), lambda x: x[x > 0], bool, lambda x: torch.equal(x, x)):
        x = torch.ones(1, device="cuda")
        wait(x)
        with torch.cuda.stream(side()):
            x + 1
        torch.cuda.synchronize()


@wrong("aten::add.Tensor reads, aten::fill_.Scalar writes")
def the_host_does_not_wait_for_elements_that_numbers_choose() -> None:
    numbers, x = torch.tensor([0, 3], device="cuda"), torch.ones(8, device="cuda")
    x[numbers]
    with torch.cuda.stream(side()):
        x + 1


@right
def columns_of_a_matrix() -> None:
    x, stream = torch.ones(16, 32, device="cuda"), side()
    torch.cuda.synchronize()
    x[:, :16].add_(1)
    with torch.cuda.stream(stream):
        x[:, 16:].add_(1)


@wrong("aten::add_.Tensor writes, aten::add_.Tensor writes")
def columns_that_overlap() -> None:
    x, stream = torch.ones(16, 32, device="cuda"), side()
    torch.cuda.synchronize()
    x[:, :16].add_(1)
    with torch.cuda.stream(stream):
        x[:, 15:].add_(1)


@right
def elements_that_numbers_choose() -> None:
    x, values = torch.zeros(8, device="cuda"), torch.ones(2, device="cuda")
    low, high = torch.tensor([0, 1], device="cuda"), torch.tensor([6, 7], device="cuda")
    torch.cuda.synchronize()
    x.index_copy_(0, low, values)
    with torch.cuda.stream(side()):
        x.index_copy_(0, high, values)


def used_and_given_back(record: bool) -> None:
    """A tensor of one stream is used in another one and released; the first stream takes a tensor of the same size."""
    stream, main = side(), torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        x = torch.ones(777, device="cuda")
    main.wait_stream(stream)
    if record:
        x.record_stream(main)
    y = x + 1
    del x
    with torch.cuda.stream(stream):
        again = torch.ones(777, device="cuda")
    torch.cuda.synchronize()
    assert (y.sum() + again.sum()).item() == 3 * 777


@wrong("aten::fill_.Scalar writes, aten::add.Tensor reads")
def memory_is_used_again_before_another_stream_has_read_it() -> None:
    used_and_given_back(False)


@right
def memory_with_a_recorded_stream() -> None:
    used_and_given_back(True)


@right
def views_access_nothing() -> None:
    x = torch.ones(4, 2, device="cuda")
    with torch.cuda.stream(side()):
        x.t(), x[1:], torch.view_as_complex(x), x.detach(), x.expand(2, 4, 2), x.unfold(0, 2, 1)


@right
def the_streams_of_autograd() -> None:
    x, stream = torch.ones(8, device="cuda", requires_grad=True), side()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = (x * x).sum()
    torch.cuda.current_stream().wait_stream(stream)
    (y * 2).backward()
    assert x.grad.tolist() == [4] * 8


def main() -> None:
    for name, function in {**RIGHT, **{name: function for name, (function, _) in WRONG.items()}}.items():
        failed = ""
        try:
            function()
        except Exception:
            failed = traceback.format_exc()
        torch.cuda.synchronize()
        print(json.dumps({"case": name, "failed": failed, "found": [[d.code, d.message] for d in SESSION.diagnostics]}), flush=True)
        SESSION.diagnostics.clear()


torch: Any = None
if __name__ == "__main__":
    ptxlab.cuda.install(lambda: SESSION)
    ptxlab.interop.torch.install()
    import torch

    torch.set_num_threads(1)
    main()
