"""A contract of import-linter: a private module is imported only inside the package that holds it."""

from __future__ import annotations

from typing import Any

from importlinter import Contract, ContractCheck, output

__all__ = ["PrivateModules"]


class PrivateModules(Contract):
    """A module ``_name`` may be imported only by modules of the package that holds it, and of the packages below that one."""

    type_name = "private"

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        broken = sorted(
            (importer, module)
            for module in graph.modules
            if module.rpartition(".")[2].startswith("_") and not module.endswith("__")
            for importer in graph.find_modules_that_directly_import(module)
            if not f"{importer}.".startswith(f"{module.rpartition('.')[0]}.")
        )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, module in check.metadata["broken"]:
            output.print_error(f"{importer} imports {module}, which is private to {module.rpartition('.')[0]}")
