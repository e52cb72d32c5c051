"""`torch.profiler` with the activity CUDA, which a CPU build refuses: the profile has no events of the device."""

from __future__ import annotations

from typing import Any

__all__ = ["allow_cuda_activities"]


def allow_cuda_activities() -> None:
    """Let torch's profiler know the activity CUDA."""
    import torch
    from torch.autograd import profiler

    of_the_build: Any = profiler._supported_activities

    def supported_activities() -> set[Any]:
        return {*of_the_build(), torch.profiler.ProfilerActivity.CUDA}

    for module in (torch.autograd, profiler):
        setattr(module, "_supported_activities", supported_activities)  # noqa: B010 - stubs do not have it
