"""Run operators of torch's own test database on the CPU and on the device cuda, and compare: values, gradients, types, strides.

``python -m tests.interop.torch_device.opinfo_cases [NAME ...]`` prints one JSON line for each operator; without names, for all that
CPUs have.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from ptxlab.interop.torch import install

UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
"""Operators that return memory that nothing has written: shapes and types are compared."""

INDICES_ON_CPU = {"tensor_split"}
"""Operators whose further arguments must be on the CPU, on a GPU too."""

TOLERANCES = {"nn.functional.scaled_dot_product_attention": 1e-4}
"""Operators for which torch takes another algorithm on the device, whose results may lie in memory in another order."""

_TOLERANCE = 1e-6
"""For all other operators: gradients may be added in another order."""

NOT_SUPPORTED = {"to_sparse": "the device has no sparse tensors"}
"""Operators that are refused, with the reason."""

_SAMPLES = 6
"""Samples of each operator, spread over all that the database has."""


def _moved(value: Any, device: str) -> Any:
    """A copy on the device, of tensors in nested lists, tuples and dictionaries; devices are replaced."""
    import torch

    if isinstance(value, torch.Tensor):
        copy = value.detach().to(device, copy=True)
        if copy.stride() != value.stride() and value.numel():
            copy = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device).copy_(value.detach())
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        moved = [_moved(v, device) for v in value]
        return value._make(moved) if hasattr(value, "_make") else type(value)(moved)
    if isinstance(value, dict):
        return {name: _moved(v, device) for name, v in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device)
    return value


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _run(op: Any, sample: Any, device: str) -> tuple[list[Any], list[Any]]:
    """Results and gradients of one sample, on one device."""
    import torch

    inputs, kwargs = _moved(sample.input, device), _moved(sample.kwargs, device)
    args = sample.args if op.name in INDICES_ON_CPU else _moved(sample.args, device)
    torch.manual_seed(5)
    with torch.device(device):
        results = list(_tensors(op(inputs, *args, **kwargs)))
    sums = [r.real.sum() if r.is_complex() else r.sum() for r in results if r.requires_grad]
    leaves = [t for t in _tensors([inputs, list(args), list(kwargs.values())]) if t.requires_grad]
    gradients = torch.autograd.grad(sum(sums), leaves, allow_unused=True) if sums and leaves else ()
    return results, list(gradients)


def _difference(here: Any, there: Any, values: bool, tolerance: float) -> str:
    """What differs between a result of the CPU and one of the device; empty if nothing does."""
    import torch

    if (here is None) != (there is None):
        return f"{here} and {there}"
    if here is None:
        return ""
    if there.device.type != "cuda":
        return f"the result is on {there.device}"
    for what in ("shape", "dtype"):
        if getattr(here, what) != getattr(there, what):
            return f"{what}: {getattr(here, what)} and {getattr(there, what)}"
    if here.stride() != there.stride() and tolerance == _TOLERANCE:
        return f"strides: {here.stride()} and {there.stride()}"
    if not values:
        return ""
    here, back = here.cpu(), there.cpu()
    if here.is_complex() or here.is_floating_point():
        here, back = (t.to(torch.complex128 if t.is_complex() else torch.float64) for t in (here, back))
        return "" if torch.allclose(here, back, rtol=tolerance, atol=tolerance, equal_nan=True) else "values"
    return "" if torch.equal(here, back) else "values"


def compare(op: Any) -> dict[str, Any]:
    """How many samples of an operator are equal, and what is wrong with the first that is not."""
    import torch

    dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else sorted(op.supported_dtypes("cpu"), key=str)[0]
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
    name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
    equal, wrong = 0, ""
    for sample in samples[:: max(1, len(samples) // _SAMPLES)]:
        try:
            here, here_gradients = _run(op, sample, "cpu")
        except Exception:  # a sample that this CPU does not have
            continue
        try:
            there, there_gradients = _run(op, sample, "cuda")
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            break
        if len(here) != len(there):
            wrong = f"{len(here)} and {len(there)} results"
            break
        values, tolerance = op.name not in UNINITIALISED, TOLERANCES.get(op.name, _TOLERANCE)
        pairs = [*zip(here, there, strict=True), *zip(here_gradients, there_gradients, strict=True)]
        wrong = next((found for pair in pairs if (found := _difference(*pair, values, tolerance))), "")
        if wrong:
            break
        equal += 1
    return {"operator": name, "equal": equal, "wrong": wrong}


def main(names: list[str]) -> None:
    install()
    warnings.filterwarnings("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    for op in op_db:
        if (not names or op.name in names) and op.name not in NOT_SUPPORTED and op.supported_dtypes("cpu"):
            print(json.dumps(compare(op)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
