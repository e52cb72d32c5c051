"""Doctest collection keeps away from programs that run when they are imported."""

from __future__ import annotations

collect_ignore_glob = ["programs/*.py"]
