"""The suite: topics of kernels that run on a GPU, which records what they give, and in ptxlab, which replays the record."""

from __future__ import annotations

import importlib

from tests.hardware.suite._kernel import Kernel

TOPICS = ("atomics", "collectives", "matrices", "mbarriers", "clusters", "bulk", "tensor_copies", "wgmma_gemms", "whole_kernels")


def kernels(topic: str) -> list[Kernel]:
    """The kernels of a topic; names are unique."""
    found: list[Kernel] = importlib.import_module(f"tests.hardware.suite.{topic}").kernels()
    assert len({k.name for k in found}) == len(found)
    return found
