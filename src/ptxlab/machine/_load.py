"""Modules from PTX text, PTX files, and binary files that carry PTX."""

from __future__ import annotations

import os
from pathlib import Path

from ptxlab import ptx
from ptxlab.machine._module import Module
from ptxlab.machine.launch.options import refuse

__all__ = ["load", "loads"]


def loads(text: str, *, file: str = "<ptx>") -> Module:
    """Parse PTX text.

    Raises
    ------
    PtxSyntaxError
        with the diagnostics of the text
    """
    return Module(ptx.parse(text, file))


def load(path: str | os.PathLike[str], *, target: str | None = None) -> Module:
    """Read a PTX file, or the PTX that a fat binary, cubin, object file, library or executable carries.

    Parameters
    ----------
    path : the file
    target : which text to take where a binary file carries several, ``"sm_100a"``

    Raises
    ------
    PtxSyntaxError, LaunchError
        if the text is not PTX or a binary file carries none; if the file cannot be read
    """
    name = os.fspath(path)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise refuse("A313", f"cannot read {name}: {error.strerror or error}") from None
    if ptx.is_binary(raw):
        chosen = _chosen(ptx.embedded(raw, name), target, name)
        return loads(chosen.text, file=chosen.file)
    text = raw.split(b"\0", 1)[0] if raw.endswith(b"\0") else raw
    return loads(text.decode("utf-8", "replace"), file=name)


def _chosen(found: list[ptx.Embedded], target: str | None, name: str) -> ptx.Embedded:
    """Return the only text, or the only one for a target."""
    fitting = [e for e in found if target in (None, e.target)]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(e.target for e in found)
    if target is None or fitting:
        fix = "pass target=, or take them one by one from ptxlab.ptx.embedded"
        raise refuse("A315", f"{name} carries {len(found)} PTX texts, for {listed}", fix=fix)
    raise refuse("A315", f"{name} carries no PTX for {target}, only for {listed}")
