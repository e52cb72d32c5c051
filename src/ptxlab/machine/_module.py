"""What a user holds: modules and kernels."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ptxlab import ptx
from ptxlab.machine._device import Device
from ptxlab.machine.launch.options import (
    MODELS,
    POLICIES,
    Options,
    choice,
    dimensions,
    refuse,
    selected_checks,
    selected_ctas,
    whole_number,
)
from ptxlab.machine.launch.result import Result
from ptxlab.machine.observe.observer import Tracing, tracing

if TYPE_CHECKING:
    from ptxlab.engine.program import Parameter

__all__ = ["Kernel", "Module"]


class Kernel:
    """An entry function of a module, ready to be launched."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name
        self._variants: dict[tuple[bool, bool], tuple[Any, Any]] = {}

    @property
    def program(self) -> Any:
        """The lowered program; errors in the kernel's body are raised when it is first asked for."""
        return self.variant(False, False)[0]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order: name, PTX type, byte offset, size and alignment in bytes."""
        return tuple(self.program.parameters)

    @property
    def executable(self) -> Any:
        """The program with the regions that have been compiled so far."""
        return self.variant(False, False)[1]

    def variant(self, contract: bool, recorded: bool) -> tuple[Any, Any]:
        """Program and executable: with unmarked multiplications and additions fused, and with accesses noted for observers."""
        found = self._variants.get((contract, recorded))
        if found is None:
            from ptxlab.engine import Executable, lower

            if recorded:
                program = self.variant(contract, False)[0].recording()
            else:
                program = lower(self.module.ast, self.module.ast.functions[self.name], contract=contract)
            found = self._variants[contract, recorded] = program, Executable(program)
        return found

    def launch(
        self,
        grid: Any = 1,
        block: Any = None,
        cluster: Any = None,
        shared_bytes: int = 0,
        args: Iterable[Any] = (),
        *,
        device: Device | None = None,
        policy: str = "eager",
        seed: int = 0,
        model: str = "practice",
        check: str | Collection[str] | None = "all",
        only: Iterable[Any] | None = None,
        registers: int | None = None,
        contract: bool = False,
        tmem_offset: int = 0,
        max_instructions: int | None = None,
        trace: str | os.PathLike[str] | Tracing | None = None,
        keep_inputs: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Run the kernel.

        Parameters
        ----------
        grid : CTAs in x, y, z
        block : threads of a CTA in x, y, z; default ``.reqntid``
        cluster : CTAs of a cluster in x, y, z; default ``.reqnctapercluster``, else 1
        shared_bytes : dynamic shared memory
        args : one argument per parameter: arrays of NumPy, torch or DLPack (copied in and back), numbers, bytes for structs,
            `TensorMap`, device buffers, None for null
        device : a `Device` that keeps memory between launches
        policy : when asynchronous operations perform: ``eager``, ``lazy`` or ``random`` (with ``seed``)
        model : ordering rules: ``practice`` or ``spec``
        check : ``"all"``, ``"none"`` or names of checks
        only : run just the clusters that hold these CTAs
        registers : registers per thread, the pool of ``setmaxnreg``; default ``.maxnreg``
        contract : fuse unmarked multiply and add
        tmem_offset : the first column that ``tcgen05.alloc`` tries
        max_instructions : the budget of warp-instructions; default finite, growing with the number of warps
        trace : write a timeline that Perfetto shows to this file; a `ptxlab.Trace` takes several launches
        keep_inputs : copy the device memory first, for `Result.provenance` and `Result.save_bundle`
        progress : called with (CTAs that have ended, all CTAs)

        Returns
        -------
        Result
            arrays have been written back if the kernel ran to its end, whatever was found

        Raises
        ------
        LaunchError
            if the launch is refused before it starts
        """
        started = time.perf_counter()
        options = self.options(
            grid,
            block,
            cluster,
            shared_bytes,
            policy,
            seed,
            model,
            check,
            only,
            registers,
            contract,
            tmem_offset,
            max_instructions,
            progress,
        )
        program, executable = self.variant(options.contract, "race" in options.checks)
        target = device if device is not None else Device(self.module.target)
        self.module.check_target(target)
        from ptxlab.machine.launch.run import run

        return run(self, program, executable, target, options, args, bool(keep_inputs), tracing(trace), started)

    def options(
        self,
        grid: Any,
        block: Any,
        cluster: Any,
        shared_bytes: Any,
        policy: str,
        seed: Any,
        model: str,
        check: Any,
        only: Any,
        registers: Any,
        contract: bool,
        tmem_offset: Any,
        max_instructions: Any,
        progress: Any,
    ) -> Options:
        """The options of a launch, checked, with all defaults resolved."""
        grid3 = dimensions("grid", grid)
        block3 = self._block(block)
        cluster3, explicit = self._cluster(cluster, grid3)
        directive = self.program.directives.get("maxnreg")
        if registers is None and directive:
            registers = int(directive[0])
        if progress is not None and not callable(progress):
            raise refuse("A310", f"progress must be callable, not {progress!r}")
        return Options(
            grid=grid3,
            block=block3,
            cluster=cluster3,
            explicit_cluster=explicit,
            shared_bytes=whole_number("shared_bytes", shared_bytes, 0, 1 << 30),
            policy=choice("policy", policy, POLICIES),
            seed=whole_number("seed", seed, -(1 << 63), 1 << 64),
            model=choice("model", model, MODELS),
            checks=selected_checks(check),
            only=selected_ctas(only, grid3, cluster3),
            registers=None if registers is None else whole_number("registers", registers, 1, 512),
            contract=bool(contract),
            tmem_offset=whole_number("tmem_offset", tmem_offset, 0, 511),
            max_instructions=None if max_instructions is None else whole_number("max_instructions", max_instructions, 0, 1 << 62),
            progress=progress,
        )

    def _directive(self, name: str) -> tuple[int, int, int] | None:
        found = self.program.directives.get(name)
        if not found:
            return None
        x, y, z = (*map(int, found), 1, 1)[:3]
        return dimensions(f".{name}", (x, y, z))

    def _block(self, block: Any) -> tuple[int, int, int]:
        required, most = self._directive("reqntid"), self._directive("maxntid")
        if block is None:
            if required is None:
                raise refuse("A308", f"kernel {self.name} has no .reqntid: say how many threads a CTA has", fix="pass block=")
            return required
        found = dimensions("block", block)
        threads = found[0] * found[1] * found[2]
        if required is not None and found != required:
            raise refuse("A308", f"block is {found}, but kernel {self.name} requires {required} (.reqntid)")
        if threads > 1024:
            raise refuse("A308", f"block {found} has {threads} threads; a CTA can have 1024")
        if most is not None and threads > most[0] * most[1] * most[2]:
            raise refuse(
                "A308", f"block {found} has {threads} threads; kernel {self.name} permits {most[0] * most[1] * most[2]} (.maxntid)"
            )
        return found

    def _cluster(self, cluster: Any, grid: tuple[int, int, int]) -> tuple[tuple[int, int, int], bool]:
        required = self._directive("reqnctapercluster")
        found = dimensions("cluster", cluster) if cluster is not None else required or (1, 1, 1)
        if required is not None and found != required:
            raise refuse("A308", f"cluster is {found}, but kernel {self.name} requires {required} (.reqnctapercluster)")
        size = found[0] * found[1] * found[2]
        most = self.program.directives.get("maxclusterrank")
        if most and size > int(most[0]):
            raise refuse("A308", f"cluster {found} has {size} CTAs; kernel {self.name} permits {most[0]} (.maxclusterrank)")
        if size > 16:
            raise refuse("A308", f"cluster {found} has {size} CTAs; a cluster can have 16")
        if any(g % c for g, c in zip(grid, found, strict=True)):
            raise refuse("A308", f"grid {grid} is not a multiple of cluster {found}", fix="grid counts CTAs, not clusters")
        return found, required is not None or cluster is not None or "explicitcluster" in self.program.directives

    def __repr__(self) -> str:
        return f"<Kernel {self.name}>"


class Module:
    """A PTX module.

    Iterating gives the names of its kernels; ``module[name]`` is a `Kernel`.

    Attributes
    ----------
    target, version : of the ``.target`` and ``.version`` directives
    ast : the syntax tree
    """

    def __init__(self, ast: ptx.Module) -> None:
        self.ast = ast
        self._kernels = {f.name: Kernel(self, f.name) for f in ast.functions.values() if f.kind == "entry" and f.body is not None}

    @property
    def target(self) -> str:
        """The architecture, ``"sm_100a"``."""
        return next((t for t in self.ast.targets if t.startswith("sm_")), "")

    @property
    def version(self) -> tuple[int, int]:
        """The PTX ISA version."""
        return self.ast.version

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __getitem__(self, name: str) -> Kernel:
        found = self._kernels.get(name)
        if found is None:
            names = ", ".join(self._kernels) or "none"
            raise refuse("A301", f"{self.ast.file} has no kernel named {name!r}; its kernels: {names}")
        return found

    def kernel(self) -> Kernel:
        """The only kernel of the module."""
        if len(self._kernels) != 1:
            names = ", ".join(self._kernels) or "none"
            raise refuse("A301", f"{self.ast.file} has {len(self._kernels)} kernels, not one: {names}", fix="name the kernel: module[name]")
        return next(iter(self._kernels.values()))

    def check_target(self, device: Device) -> None:
        """A device without an architecture takes the module's; another architecture is refused."""
        if device.target is None:
            device.target = self.target
        if not _runs_on(self.target, device.target):
            raise refuse("A312", f"the module is for {self.target}, the device is {device.target}")

    def __repr__(self) -> str:
        return f"<Module {self.ast.file} for {self.target}: {', '.join(self._kernels)}>"


def _runs_on(target: str, device: str) -> bool:
    """Whether code for ``target`` runs on ``device``: plain targets on all later ones, family ones in the family, others on themselves."""

    def parts(name: str) -> tuple[int, str]:
        digits = "".join(c for c in name if c.isdigit())
        return int(digits or 0), name[-1:] if name[-1:].isalpha() else ""

    (want, feature), (have, _) = parts(target), parts(device)
    if feature == "a":
        return want == have
    if feature == "f":
        return want // 10 == have // 10 and have >= want
    return have >= want
