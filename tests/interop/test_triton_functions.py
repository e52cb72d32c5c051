"""Functions that Triton's programs call beside their kernels: autotuning, benchmarks, the profiler, reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton import testing  # noqa: E402

from ptxlab.interop.session import Session  # noqa: E402
from tests.cuda.driver_helpers import needs_compiler  # noqa: E402
from tests.interop import triton_kernels as kernels  # noqa: E402

pytestmark = [
    pytest.mark.compiler,
    needs_compiler,
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.usefixtures("triton_cache"),
]


def test_autotuning_takes_the_first_valid_configuration(session: Session) -> None:
    a, out = torch.ones(64, 64), torch.zeros(1)
    kernels.tuned[(1,)](a, a, out, 1)
    assert out.item() == 64
    assert kernels.tuned.best_config.kwargs == {"SIZE": 64}
    (note,) = session.diagnostics
    assert (note.code, note.severity) == ("I305", "note")
    assert note.message.startswith("autotuning of tuned took the first valid one of 3 configurations: SIZE: 64, ")
    kernels.tuned[(1,)](a, a, out, 1)
    assert len(session.diagnostics) == 1
    assert len(session.launches) == 2


def test_benchmarks_run_once_and_say_that_times_mean_nothing(session: Session) -> None:
    calls = []
    time = testing.do_bench(lambda: calls.append(1))
    assert len(calls) == 1
    assert time > 0
    assert len(testing.do_bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8])) == 3
    assert testing.do_bench_cudagraph(lambda: calls.append(1)) > 0
    assert len(testing.do_bench_cudagraph(lambda: calls.append(1), 20, None, [0.5, 0.2])) == 2
    assert len(calls) == 4
    (warning,) = session.diagnostics
    assert (warning.code, warning.severity) == ("I306", "warning")
    assert warning.message == "do_bench ran the function once; the times are those of the simulation on this computer"
    assert session.ok


def test_the_profiler_records_nothing_and_says_so(session: Session, tmp_path: Path) -> None:
    from triton import profiler

    x = torch.ones(100)
    assert profiler.start(str(tmp_path / "times"), hook="triton") == 0
    profiler.deactivate()
    profiler.activate(0)
    with profiler.scope("add", {"bytes": 400}):
        kernels.add[(1,)](x, x, x, 100, BLOCK=128)
    profiler.deactivate(0)
    profiler.profile(lambda: None, name=str(tmp_path / "more"))()
    profiler.finalize()
    import triton.profiler.viewer as viewer

    assert viewer.parse(["time/ms"], str(tmp_path / "times.hatchet")) == (None, ["time/ms"])
    viewer.print_tree(None, ["time/ms"])
    assert x.sum() == 200
    (note,) = session.diagnostics
    assert (note.code, note.message) == ("I306", "the profiler records nothing, and no file is written")
    assert not any(tmp_path.iterdir())


def test_a_report_takes_the_first_point(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    ran = []

    @testing.perf_report(
        testing.Benchmark(
            x_names=["M", "N"],
            x_vals=[128, 256, 512],
            line_arg="provider",
            line_vals=["ours", "torch"],
            line_names=["Ours", "Torch"],
            plot_name="sizes",
            args={"dtype": torch.float16},
            ylabel="GB/s",
        )
    )
    def report(M: int, N: int, provider: str, dtype: Any, scale: int = 1) -> Any:
        ran.append((M, N, provider, dtype, scale))
        time = testing.do_bench(lambda: None, quantiles=[0.5, 0.2, 0.8])
        return time if provider == "ours" else 4.5

    row = report.run(print_data=True, return_df=True, scale=3)
    assert ran == [(128, 128, "ours", torch.float16, 3), (128, 128, "torch", torch.float16, 3)]
    assert list(row) == ["M", "N", "Ours (GB/s)", "Torch (GB/s)"]
    assert row["Torch (GB/s)"] == 4.5
    assert row["Ours (GB/s)"] > 0
    assert capsys.readouterr().out == f"sizes: M = 128, N = 128, Ours (GB/s) = {row['Ours (GB/s)']}, Torch (GB/s) = 4.5\n"
    assert [(d.code, d.message) for d in session.diagnostics] == [
        ("I306", "perf_report ran each line of sizes for the first of 3 values; there is no plot and no file"),
        ("I306", "do_bench ran the function once; the times are those of the simulation on this computer"),
    ]


def test_comparisons_and_rates_of_the_testing_module(session: Session) -> None:
    x, out = torch.ones(100, dtype=torch.bfloat16), torch.zeros(100, dtype=torch.bfloat16)
    kernels.add[(1,)](x, x, out, 100, BLOCK=128)
    testing.assert_close(out, torch.full((100,), 2.0))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        testing.assert_close(out, torch.full((100,), 2.5), atol=0.1)
    assert testing.get_dram_gbps() == 3_996_000 * 7680 * 2 / 1e6 / 8


def test_a_benchmark_that_was_imported_before_works_too(session: Session) -> None:
    interface = triton.runtime.driver.active.get_device_interface()
    start, end = interface.Event(enable_timing=True), interface.Event(enable_timing=True)
    start.record()
    interface.synchronize()
    end.record()
    assert start.elapsed_time(end) > 0
