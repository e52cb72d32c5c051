"""Who wrote an element of a tensor that a Triton kernel was launched with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

import ptxlab.interop.triton  # noqa: E402
from ptxlab.interop.session import Session  # noqa: E402
from tests.cuda.driver_helpers import needs_compiler  # noqa: E402
from tests.interop import triton_kernels as kernels  # noqa: E402

pytestmark = [
    pytest.mark.compiler,
    needs_compiler,
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.usefixtures("triton_cache"),
]


@pytest.fixture
def session() -> Iterator[Session]:
    with ptxlab.interop.triton.device("sm_100a", keep_inputs=True, report=lambda _: None) as session:
        yield session


def owner(session: Session, array: Any, index: Any) -> ptxlab.Provenance:
    return session.launches[-1].result.provenance(array, index)


def test_torch_tensors(session: Session) -> None:
    x, y, out = torch.rand(1000), torch.rand(1000), torch.full((1000,), -1.0)
    kernels.add[(4,)](x, y, out, 1000, BLOCK=256)
    for i in (0, 255, 256, 999):
        found = owner(session, out, i)
        (writer,) = found.writers
        assert (found.array, found.before, found.after, writer.value) == ("out", -1.0, out[i].item(), out[i].item())
        assert writer.cta == (i // 256, 0, 0)
        assert writer.source is not None
        assert (writer.source.file, writer.source.line) == (kernels.__file__, kernels.add.starting_line_number + 3)
    assert owner(session, x, 5).writers == ()
    out.zero_()
    assert owner(session, out, 5).after == (x[5] + y[5]).item(), "the launch runs again on memory of its own"
    assert out[5] == 0


def test_views_types_and_names(session: Session) -> None:
    whole = torch.zeros(8, 64, dtype=torch.bfloat16)
    x = torch.arange(64, dtype=torch.bfloat16)
    kernels.add[(1,)](x, x, whole[3], 64, BLOCK=64)
    assert float(owner(session, whole[3], 10).after) == 20.0
    assert float(owner(session, "out", (10,)).after) == 20.0
    assert float(owner(session, whole, (3, 10)).after) == 20.0, "a tensor whose part was passed"
    assert owner(session, whole, (2, 10)).writers == ()
    array = np.zeros(64, np.float32)
    kernels.add[(1,)](np.ones(64, np.float32), np.ones(64, np.float32), array, 64, BLOCK=64)
    assert owner(session, array, 63).after == 2.0


def test_host_descriptors(session: Session) -> None:
    x, out = torch.rand(32, 64), torch.zeros(32, 64)
    kernels.copy_tile[(2,)](TensorDescriptor.from_tensor(x, [16, 64]), out, 16, 64)
    (writer,) = owner(session, out, (17, 3)).writers
    assert (writer.cta, writer.value) == ((1, 0, 0), x[17, 3].item())
    assert owner(session, "x_desc", (1, 2)).writers == ()


def test_memory_behind_a_table_of_pointers(session: Session) -> None:
    a, b = torch.tensor([3.0]), torch.tensor([1.0, 5.0])
    table, out = torch.tensor([a.data_ptr(), b.data_ptr() + 4]), torch.zeros(2)
    kernels.through_table[(1,)](table, out)
    assert out.tolist() == [3.0, 5.0]
    found = owner(session, b, 1)
    assert (found.writers, found.before) == ((), 5.0)
    with pytest.raises(ptxlab.LaunchError) as caught:
        owner(session, torch.zeros(3), 0)
    assert str(caught.value) == (
        "error[A317]: this Tensor is no array of the launch\n  fix: its array arguments: table, out; give the same object or the name"
    )


def test_a_bundle_of_a_launch(session: Session, tmp_path: Path) -> None:
    x, out = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    kernels.add[(1,)](x, x, out, 64, BLOCK=64)
    session.launches[-1].result.save_bundle(tmp_path / "add.ptxlab")
    replay = ptxlab.read_bundle(tmp_path / "add.ptxlab")
    result, memory = replay.run()
    assert result.ok
    arrays = {placed.name: placed.view(memory) for placed in replay.arrays}
    assert set(arrays) == {"x", "y", "out"}
    assert np.array_equal(arrays["out"], 2 * np.arange(64))
    assert replay.provenance("out", 9).writers[0].cta == (0, 0, 0)


def test_nothing_is_kept_unasked() -> None:
    out = torch.zeros(64)
    with ptxlab.interop.triton.device("sm_100a") as session:
        kernels.add[(1,)](torch.ones(64), torch.ones(64), out, 64, BLOCK=64)
    with pytest.raises(ptxlab.LaunchError, match="A316"):
        owner(session, out, 0)
