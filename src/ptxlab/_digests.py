"""BLAKE2b without `hashlib`, which loads OpenSSL: 4 MB of memory and several milliseconds, for a function that Python has without it."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b

__all__ = ["blake2b"]
