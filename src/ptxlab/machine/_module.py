"""Modules and kernels, as users load and launch them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxlab import ptx
from ptxlab.isa.targets import runs_on
from ptxlab.machine._device import Device
from ptxlab.machine.launch.configuration import LaunchConfiguration, Outside
from ptxlab.machine.launch.options import LaunchOptions, refuse
from ptxlab.machine.launch.result import Result
from ptxlab.machine.observe.observer import Tracing, warm_observers
from ptxlab.native.collection import collection_paused

if TYPE_CHECKING:
    from ptxlab.engine.program import Parameter
    from ptxlab.machine.replay.replay import Replay

__all__ = ["Kernel", "Module", "load", "loads", "warmup_parts"]


class Kernel:
    """An entry function of a module, ready to be launched."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name
        self._lowered: dict[bool, Any] = {}
        self._variants: dict[tuple[bool, ...], tuple[Any, Any]] = {}
        self._replacement: tuple[Any, Any] | None = None
        self._last: tuple[tuple[Any, ...], Any, Any, LaunchConfiguration] | None = None
        """What the last launch was asked for, and its configuration; not if an object was given whose text does not say its value."""

    @property
    def program(self) -> Any:
        """The lowered program; errors in the kernel's body are raised when it is first asked for."""
        return self._lower(False)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order: name, PTX type, byte offset, size and alignment in bytes."""
        return tuple(self.program.parameters)

    @property
    def executable(self) -> Any:
        """The program with the regions that have been compiled so far."""
        return self.variant(False, False)[1]

    def variant(
        self, contract: bool, recorded: bool, tracked: bool = True, followed: bool = True, counted: bool = False
    ) -> tuple[Any, Any]:
        """Return the program and its executable.

        ``contract`` fuses unmarked multiplications and additions; ``recorded`` code records its memory accesses for observers; ``tracked``
        code follows undefined bits, if some register may have such; ``followed`` code notes from where the values come that it copies to
        shared memory; ``counted`` code counts executions and what accesses cost, for `Result.profile`.
        """
        if self._replacement is not None:
            return self._replacement
        asked = contract, recorded, tracked, followed, counted
        found = self._variants.get(asked)
        if found is None:
            from ptxlab.engine import Executable
            from ptxlab.machine.launch.program_facts import facts_of

            program = self._lower(contract)
            tracked, followed = tracked or not program.tracked, followed or not program.loaded.rows
            key = contract, recorded, tracked, followed, counted
            found = self._variants.get(key)
            if found is None:
                program = program if tracked else program.untracked()
                program = program if followed else program.unfollowed()
                read = None
                if recorded:
                    from ptxlab.machine.warp.consumption import Consumption

                    read = Consumption(program)
                    program = program.recording(frozenset(read.read_at_ends))
                program = program.counting() if counted else program
                with collection_paused():
                    found = self._variants[key] = program, Executable(program)
                if read is not None:
                    facts_of(*found).know(Consumption, read)
            self._variants[asked] = found
        return found

    @contextmanager
    def replaced(self, program: Any, executable: Any) -> Iterator[None]:
        """Launch another program in place of this kernel's, whatever is asked for: a mutant, or one of another back end."""
        before, self._replacement = self._replacement, (program, executable)
        try:
            yield
        finally:
            self._replacement = before

    def _lower(self, contract: bool) -> Any:
        """The program without the changes of `variant`."""
        found = self._lowered.get(contract)
        if found is None:
            from ptxlab.engine import lower

            found = self._lowered[contract] = lower(self.module.ast, self.module.ast.functions[self.name], contract=contract)
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
        undefined: str = "report",
        progress: Callable[[int, int], None] | None = None,
        outside: Outside | None = None,
        grid_workspace: int = 0,
        profile: bool = False,
        workers: int | str = 1,
    ) -> Result:
        """Run the kernel.

        Parameters
        ----------
        grid : CTAs in x, y, z
        block : threads of a CTA in x, y, z; default ``.reqntid``
        cluster : CTAs of a cluster in x, y, z; default ``.reqnctapercluster``, else 1
        shared_bytes : dynamic shared memory
        args : one argument per parameter: arrays of NumPy, torch or DLPack (changed if the kernel ends), numbers, bytes for structs,
            `TensorMap`, device buffers, None for null
        device : a `Device` that keeps memory between launches
        policy : when asynchronous operations perform: ``eager`` (at issue), ``lazy`` (as late as the program allows) or ``random``
        seed : of the random policy
        model : ordering rules: ``practice`` or ``spec``
        check : ``"all"``, ``"none"`` or names of checks
        only : run just the clusters that hold these CTAs
        registers : registers per thread, the pool of ``setmaxnreg``; default ``.maxnreg``
        contract : fuse unmarked multiply and add
        tmem_offset : the first column that ``tcgen05.alloc`` tries
        max_instructions : the budget of warp-instructions; default finite, growing with the number of warps
        trace : write a timeline that Perfetto shows to this file; a `ptxlab.Trace` takes several launches
        keep_inputs : copy the device memory first, for `Result.provenance` and `Result.save_bundle`
        undefined : what registers and memory hold that nothing has written: ``report`` follows such values and reports where they are used,
            ``zero`` and ``random`` (by ``seed``) give them a value, to compare runs
        progress : called with (CTAs that have ended, all CTAs)
        outside : what runs beside the launch and may change the memory that it sees
        grid_workspace : address of 8 zeroed bytes that CUDA's barriers of the whole grid use, in ``%envreg1`` (the upper half of
            the address) and ``%envreg2``; a cooperative launch has them
        profile : count what instructions execute and what their accesses cost, for `Result.profile`
        workers : processes that run clusters at the same time, ``"auto"``: one for each processor; the result is that of one, and
            ``Result.stats`` says how many have run

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
        # Texts, numbers and None; the others may be collections, whose contents may change: their representation is compared.
        plain: tuple[Any, ...] = policy, seed, model, undefined, shared_bytes, registers, contract, tmem_offset, max_instructions
        plain += keep_inputs, grid_workspace, profile, workers
        asked = plain, tuple(map(type, plain)), repr((grid, block, cluster, check, only, trace))
        last = self._last
        if last is not None and last[0] == asked and last[1] is progress and last[2] is outside:
            configuration = last[3]
        else:
            options = LaunchOptions(
                policy=policy,
                seed=seed,
                model=model,
                check=check,
                only=only,
                registers=registers,
                contract=contract,
                tmem_offset=tmem_offset,
                max_instructions=max_instructions,
                trace=trace,
                keep_inputs=keep_inputs,
                undefined=undefined,
                workers=workers,
            )
            dimensions = grid, block, cluster
            with collection_paused():
                configuration = LaunchConfiguration.of(
                    self.program, options, *dimensions, shared_bytes, progress, outside, grid_workspace, profile
                )
            kept = " at 0x" not in asked[-1] and "..." not in asked[-1]
            self._last = (asked, progress, outside, configuration) if kept else None
        target = device if device is not None else Device(self.module.target)
        self.module.check_target(target)
        return _runner()(self, target, configuration, args, started)

    def prepare(
        self,
        grid: Any = 1,
        block: Any = None,
        cluster: Any = None,
        shared_bytes: int = 0,
        args: Iterable[Any] = (),
        *,
        device: Device | None = None,
        **options: Any,
    ) -> Replay:
        """Keep a launch without running it; for a debugger, which runs it in steps.

        Parameters
        ----------
        grid, block, cluster, shared_bytes, args, device : as in `launch`
        options : other options of `launch` by name

        Raises
        ------
        LaunchError
            if the launch is refused
        """
        from ptxlab.machine.launch.execution import prepare

        configuration = LaunchConfiguration.of(self.program, LaunchOptions().changed(**options), grid, block, cluster, shared_bytes, None)
        target = device if device is not None else Device(self.module.target)
        self.module.check_target(target)
        return prepare(self, target, configuration, args)

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
        self.target = next((t for t in ast.targets if t.startswith("sm_")), "")
        self._kernels = {f.name: Kernel(self, f.name) for f in ast.functions.values() if f.kind == "entry" and f.body is not None}

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
        """Give a device without a target the module's target; refuse a device for which the module is not."""
        if device.target is None:
            device.target = self.target
        if self.target != device.target and not runs_on(self.target, device.target):
            raise refuse("A312", f"the module is for {self.target}, the device is {device.target}")

    def __repr__(self) -> str:
        return f"<Module {self.ast.file} for {self.target}: {', '.join(self._kernels)}>"


@cache
def _runner() -> Callable[..., Result]:
    """What runs launches; its modules are imported for the first of them."""
    with collection_paused():
        from ptxlab.machine.launch.execution import run
    return run


def loads(text: str, *, file: str = "<ptx>") -> Module:
    """Parse PTX text.

    Of a text with several kernels, the body of a function is parsed when a kernel that may call it is first launched, or when its
    statements are asked for. A mistake in it is reported then.

    Raises
    ------
    PtxSyntaxError
        with the diagnostics of the text
    """
    ast = ptx.outline(text, file)
    module = Module(ast)
    if len(module) < 2:
        for function in ast.functions.values():
            if function.body is not None:
                _ = function.body.statements
    return module


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


def warmup_parts(paths: Sequence[str | os.PathLike[str]] = ()) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield names of pieces of code, each with a function that compiles it into the cache.

    Parameters
    ----------
    paths : PTX files whose kernels are compiled whole, beside the arithmetic of the tensor core

    Raises
    ------
    PtxlabError
        if a file cannot be read, parsed or lowered
    """
    from ptxlab import numerics

    yield from numerics.warmup_parts()
    yield "checks", warm_observers
    for path in paths:
        module = load(path)
        for name in module:
            for recorded, checks in ((True, "all"), (False, "none")):
                executable = module[name].variant(False, recorded, followed=checks == "all")[1]
                yield f"{os.fspath(path)}: {name}, check={checks}", executable.compile_all
