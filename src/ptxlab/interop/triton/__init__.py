"""Triton without a GPU: kernels are compiled by Triton as always, and their PTX runs in ptxlab.

Three ways to switch it on: ``ptxlab exec script.py``, the environment variable ``TRITON_DEFAULT_BACKEND=ptxlab``, and `device`.

Examples
--------
>>> import ptxlab.interop.triton                                                    # doctest: +SKIP
>>> with ptxlab.interop.triton.device("sm_100a", policy="lazy") as session:         # doctest: +SKIP
...     add_kernel[(4,)](x, y, out, 1000, BLOCK=256)
>>> session.ok                                                                      # doctest: +SKIP
True
"""

from __future__ import annotations

from ptxlab.interop.compilers import CompilerDevice, run_triton

__all__ = ["device"]

device = CompilerDevice(run_triton)
"""Runs the Triton kernels that are launched inside a ``with`` statement."""
