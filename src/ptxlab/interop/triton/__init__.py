"""Triton without a GPU: kernels are compiled by Triton as always, and their PTX runs in ptxlab.

Three ways to switch it on: ``ptxlab exec script.py``, the environment variable ``TRITON_DEFAULT_BACKEND=ptxlab``, and `device`.
"""

from ptxlab.interop.triton.activation import device

__all__ = ["device"]
