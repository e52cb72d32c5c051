"""Evaluates expressions in the module of a program, in place of its main part: the script that is executed for `Program.calls`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def main(program: str, *expressions: str) -> None:
    """Import a program as a module, and evaluate expressions with its names, one after another."""
    path = Path(program)
    sys.argv = [program]
    sys.path[0] = str(path.parent)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    for each in expressions:
        eval(each, vars(module))


if __name__ == "__main__":
    main(*sys.argv[1:])
