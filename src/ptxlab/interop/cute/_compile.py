"""Compilation by CuTe DSL without a GPU, and launches of compiled host functions; ptxlab answers the CUDA calls of host code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import c_void_p, cast
from dataclasses import replace
from functools import cache, cached_property, partial
from glob import escape
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from ptxlab.interop.cute._arguments import copied, example, is_tensor
from ptxlab.interop.cute._calls import HostCall, entry_point
from ptxlab.interop.optional_packages import missing
from ptxlab.interop.session import replace_attribute
from ptxlab.machine import Device, Kernel, LaunchError, Module, Result, loads
from ptxlab.machine.launch.options import LaunchOptions, refuse
from ptxlab.machine.observe.observer import tracing
from ptxlab.machine.replay.replay import Placed

__all__ = ["Compiled", "compile", "compiling_for", "cutlass", "kernels_of", "loaded"]


def cutlass() -> Any:
    """Import CuTe DSL; an error says what to install."""
    try:
        import_module("cutlass.cute")
    except ImportError as error:
        reason = str(error).partition("\n")[0]
        raise LaunchError(missing(f"CuTe DSL cannot be imported ({reason})", "cute", "I101")) from None
    return import_module("cutlass")


def _dsl() -> Any:
    return cutlass().cutlass_dsl.CuTeDSL._get_dsl()


@contextmanager
def compiling_for(target: str) -> Iterator[None]:
    """Make CuTe DSL compile for ``target``, keep its PTX, and call ptxlab from its host code, in a ``with`` statement."""
    known = cutlass().base_dsl.Arch.__members__
    if target not in known:
        names = ", ".join(name for name in known if name[-1] in "af")
        raise refuse("I102", f"CuTe DSL does not compile for {target}", fix=f"targets are {names}")
    settings, compiler = _dsl().envar, _dsl().compiler_provider
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for owner, name, value in (
            (settings, "arch", target),
            (settings, "keep_ptx", True),
            (settings, "no_cache", True),
            (settings, "lineinfo", True),
            (settings, "dump_dir", folder),
            (compiler, "execution_engine", SimpleNamespace(ExecutionEngine=_engine())),
        ):
            replace_attribute(stack, owner, name, value)
        yield


@cache
def _engine() -> Any:
    """CuTe DSL's engine for host code, with ptxlab's CUDA functions in front of the runtime's, and the kernels as PTX."""
    engine: Any = import_module("cutlass._mlir.execution_engine").ExecutionEngine

    class Engine(engine):  # type: ignore[misc]
        def __init__(self, module: Any, opt_level: int = 2, shared_libs: Any = ()) -> None:
            super().__init__(module, opt_level=opt_level, shared_libs=shared_libs)
            functions = _cuda_functions(module)
            self.host_only = not functions
            for name in functions:
                self.raw_register_runtime(name, cast(entry_point(name), c_void_p))
            self.ptx = _kept_ptx(_dsl().compile_options.full_ptx_path)

        @cached_property
        def kernels(self) -> Module:
            """The module of kernels."""
            if self.ptx is None:
                raise refuse("I107", "CuTe DSL has written no PTX for the host function", fix="launch a kernel in it")
            return loads(self.ptx, file="cute.ptx")

    return Engine


def _kept_ptx(path: str | None) -> str | None:
    """The text that CuTe DSL has written; for sm_110 the file's name ends with that architecture's older name, sm_101."""
    if path is None:
        return None
    expected = Path(path)
    found = next(expected.parent.glob(f"{escape(expected.name.partition('.')[0])}.*.ptx"), None)
    return None if found is None else found.read_text()


def _cuda_functions(module: Any) -> list[str]:
    """The CUDA functions that a module declares."""
    functions = [op for op in module.body.operations if op.operation.name == "llvm.func" and not len(op.regions[0].blocks)]
    names = [str(op.attributes["sym_name"].value) for op in functions]
    return [name for name in names if name.startswith("_cu")]


def kernels_of(function: Any) -> Module | None:
    """The kernels of a compiled function, or of its executor; None if it has none, or was compiled outside of `compiling_for`."""
    engine = function.engine
    return engine.kernels if isinstance(engine, _engine()) and not engine.host_only else None


def loaded(function: Any) -> Any:
    """A compiled function whose host code has looked its kernels up, ready to be called.

    That is done once for each device, and ptxlab has one; the handle of the library is removed, so that no driver is asked to unload it.
    """
    function.__dict__["num_devices"] = 1
    executor = function.to()
    executor.jit_module.cuda_library.clear()
    return executor


class Compiled:
    """A host function compiled by CuTe DSL, with the kernels that it launches.

    Attributes
    ----------
    function : CuTe DSL's compiled function
    module : the kernels
    """

    def __init__(self, function: Any, examples: Mapping[str, Any]) -> None:
        self.function = function
        self.module: Module = function.engine.kernels
        self._examples = examples

    @property
    def ptx(self) -> str:
        """The text of the kernels."""
        return str(self.function.engine.ptx)

    def launch(self, *args: Any, device: Device | None = None, **options: Any) -> Result:
        """Call the host function; the kernels that it launches run in ptxlab.

        Parameters
        ----------
        args : its arguments without those of type ``Constexpr``: arrays (NumPy, ml_dtypes, torch on the CPU) and device buffers; numbers;
            what CuTe DSL has made, such as ``from_dlpack(array).mark_layout_dynamic()`` or ``make_ptr``. Arrays are copied to the device
            and, after a run to the end, back; tensors and pointers of CuTe DSL keep the addresses that they have
        device : a `ptxlab.Device` that keeps memory between launches
        options : ``policy``, ``seed``, ``model``, ``check`` and the other options of `ptxlab.Kernel.launch`; grid, block, cluster and
            shared memory are the host function's

        Returns
        -------
        Result
            of all launches together; a launch with errors is the last one

        Raises
        ------
        LaunchError
            if an argument is refused, or the host function ended with an error
        """
        LaunchOptions().changed(**{name: value for name, value in options.items() if name != "progress"})
        target = device if device is not None else Device(self.module.target)
        self.module.check_target(target)
        options["trace"] = tracing(options.get("trace"))
        with copied(self._named(args), target, self.function.function_name) as (passed, copies, arrays):
            call = HostCall(self.module, target, partial(_launch, target, options, arrays))
            for name, value in passed.items():
                self._check_form(name, value)
            result = call.run(lambda: loaded(self.function)(*passed.values()))
            if result.completed:
                copies.write_back()
        return result

    def _named(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments by the names of their parameters."""
        names = list(self.function.execution_args.signature.parameters)
        if len(args) != len(names):
            given = "1 argument was given" if len(args) == 1 else f"{len(args)} arguments were given"
            raise refuse("A302", f"the host function takes ({', '.join(names)}), but {given}", fix="leave out what was Constexpr")
        return dict(zip(names, args, strict=True))

    def _check_form(self, name: str, value: Any) -> None:
        """Refuse a tensor that does not have the type and layout that the machine code was compiled for."""
        was = self._examples.get(name)
        if was is None or not is_tensor(was):
            return
        if not is_tensor(value):
            given = "None" if value is None else f"a value of type {type(value).__name__}"
            raise refuse("I104", f"argument {name}: the host function was compiled for a tensor, this is {given}")
        if type(was) is type(value) and was.__cache_key__ != value.__cache_key__:
            raise refuse(
                "I104",
                f"argument {name}: the host function was compiled for {_form(was)}, this is {_form(value)}",
                fix="compile it again, or compile it for a dynamic layout: from_dlpack(array).mark_layout_dynamic()",
            )


def _launch(device: Device, options: Mapping[str, Any], arrays: Iterable[Placed], kernel: Kernel, **geometry: Any) -> Result:
    result = kernel.launch(device=device, **geometry, **options)
    if result.replay is not None:
        result.replay = replace(result.replay, arrays=tuple(arrays))
    return result


def _form(tensor: Any) -> str:
    """Describe the properties of a tensor that code is compiled for: ``Float16 (256,192):(192,1) in gmem, aligned to 16 bytes``."""
    dtype, alignment, layout = tensor.__cache_key__
    space, _, rest = str(layout).partition(" o ")
    return f"{dtype} {rest} in {space} memory" + (f", aligned to {alignment} bytes" if alignment else "")


def compile(function: Any, *args: Any, target: str = "sm_100a", options: str = "") -> Compiled:
    """Compile a host function of CuTe DSL (``@cute.jit``) and the kernels that it launches.

    Parameters
    ----------
    function : the host function, or an object whose ``__call__`` is one
    args : arguments to compile for, as in ``cute.compile``; arrays count with type, shape and strides, not with what they hold
    target : the architecture
    options : options of CuTe DSL's compiler, ``"--opt-level 2"``

    Returns
    -------
    Compiled

    Raises
    ------
    LaunchError
        if CuTe DSL is not installed, or an argument is refused; what CuTe DSL has against the program, it says itself

    Examples
    --------
    >>> compiled = compile(host_function, A, B, C, target="sm_100a")                    # doctest: +SKIP
    >>> compiled.launch(A, B, C, policy="lazy").ok                                      # doctest: +SKIP
    True
    """
    with compiling_for(target):
        examples = [example(value, str(position)) for position, value in enumerate(args)]
        made = cutlass().cute.compile(function, *examples, **({"options": options} if options else {}))
    made.execution_args._full_arg_check = True  # a number that is none is refused, and not taken for no argument
    names = [name for name in made.execution_args.original_signature.parameters if name != "self"]
    return Compiled(made, dict(zip(names, examples, strict=False)))
