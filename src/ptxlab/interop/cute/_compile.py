"""Compilation by CuTe DSL without a GPU, and calls of compiled host functions, which call the virtual driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import build
from ptxlab.cuda.calls import host_call, launching
from ptxlab.cuda.libraries import CUTE
from ptxlab.diagnostics import PtxlabError
from ptxlab.interop import _bindings_runtime
from ptxlab.interop._host_memory import HostArray, placed, registered_arguments
from ptxlab.interop.cute._arguments import example, passed, surround_calls
from ptxlab.interop.optional_packages import after_import, missing
from ptxlab.interop.session import FOR_GOOD, replace_attribute
from ptxlab.machine import Device, LaunchError, Module, Result, loads
from ptxlab.machine.launch.options import LaunchOptions, refuse
from ptxlab.machine.observe.observer import tracing

__all__ = ["Compiled", "check_functions", "compile", "compiling_for", "cutlass", "kept_folder"]


def cutlass() -> Any:
    """Import CuTe DSL, whose questions to the CUDA runtime the driver answers; an error says what to install."""
    after_import(_bindings_runtime.MODULE, _bindings_runtime.install)
    try:
        import_module("cutlass.cute")
        return import_module("cutlass")
    except ImportError as error:
        reason = str(error).partition("\n")[0]
        raise LaunchError(missing(f"CuTe DSL cannot be imported ({reason})", "cute", "I101")) from None


@cache
def kept_folder() -> Path:
    """The folder of this process in which CuTe DSL keeps PTX beside machine code, and the driver finds it."""
    folder = Path(FOR_GOOD.enter_context(TemporaryDirectory(prefix="ptxlab-cute-")))
    cuda.install().bridge.store.folders.append(folder)
    return folder


@contextmanager
def compiling_for(target: str) -> Iterator[None]:
    """Make CuTe DSL compile for ``target``, keep PTX for the driver, and call the driver, in a ``with`` statement."""
    known = cutlass().base_dsl.Arch.__members__
    if target not in known:
        names = ", ".join(name for name in known if name[-1] in "af")
        raise refuse("I102", f"CuTe DSL does not compile for {target}", fix=f"targets are {names}")
    dsl = cutlass().cutlass_dsl.CuTeDSL._get_dsl()
    kept = {"keep_ptx": True, "keep_cubin": True, "dump_dir": str(kept_folder()), "no_cache": True}
    with ExitStack() as stack:
        for name, value in {**kept, "arch": target, "lineinfo": True, "shared_libs": str(build(CUTE))}.items():
            replace_attribute(stack, dsl.envar, name, value)
        replace_attribute(stack, dsl.compiler_provider, "jit", partial(_check_and_jit, dsl.compiler_provider.jit))
        try:
            yield
        except Exception as error:
            raise _refusal(error) from None


def _refusal(error: BaseException) -> BaseException:
    """The I105 that CuTe DSL shows as a defect of its own; any other error as it is."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, PtxlabError) and cause.diagnostic.code == "I105"):
        cause = cause.__cause__ or cause.__context__
    return cause or error


def _check_and_jit(jit: Callable[..., Any], module: Any, *arguments: Any, **options: Any) -> Any:
    """Compile host code as CuTe DSL does, if it calls no CUDA functions but those of `CUTE`."""
    functions = [op for op in module.body.operations if op.operation.name == "llvm.func" and not len(op.regions[0].blocks)]
    check_functions(name for op in functions if (name := str(op.attributes["sym_name"].value)).startswith("_cu"))
    return jit(module, *arguments, **options)


def check_functions(names: Iterable[str]) -> None:
    """Refuse host code that calls CUDA functions which `CUTE` does not have (I105)."""
    cuda.install()
    library = ctypes.CDLL(str(build(CUTE)))
    for name in names:
        if not hasattr(library, name):
            what = f"the host function calls {name.lstrip('_')}, which ptxlab does not have"
            raise refuse("I105", what, fix="do that outside the host function")


class Compiled:
    """A host function compiled by CuTe DSL, with the kernels that it launches.

    Attributes
    ----------
    function : CuTe DSL's compiled function
    ptx : the text of the kernels
    module : the kernels
    """

    def __init__(self, function: Any, ptx: str, examples: Mapping[str, Any]) -> None:
        self.function = function
        self.ptx = ptx
        self.module: Module = loads(ptx, file="cute.ptx")
        self._examples = examples

    def launch(self, *args: Any, device: Device | None = None, **options: Any) -> Result:
        """Call the host function; the kernels that it launches run in ptxlab.

        Parameters
        ----------
        args : its arguments without those of type ``Constexpr``: arrays (NumPy, ml_dtypes, torch on the CPU) and device buffers; numbers;
            what CuTe DSL has made, such as ``from_dlpack(array).mark_layout_dynamic()`` or ``make_ptr``. Arrays,
            tensors and pointers keep the addresses that they have: their memory is the device's for the time of the call
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
        driver = cuda.install()
        driver.adopt(target)
        results: list[Result] = []
        run = launching(options, lambda _kernel, _shape, result: results.append(result))
        taken, arrays = passed(self._named(args), target)
        for name, value in taken.items():
            self._check_form(name, value)
        given = [(place.name, HostArray(place.host)) for place in arrays if place.host is not None]

        def surround(memory: list[tuple[str, Any]]) -> AbstractContextManager[None]:
            arrays.extend(placed(memory))
            return registered_arguments(driver, [*given, *memory])

        try:
            with host_call(driver, target, run), ExitStack() as stack:
                surround_calls(stack, surround)
                self.function(*taken.values())
        except PtxlabError:
            if not results or results[-1].ok:
                raise
        except Exception as error:
            message = str(getattr(error, "message", error)).partition("\n")[0].strip() or "no message"
            raise refuse("I106", f"the host function ended with {type(error).__name__}: {message}") from error
        result = Result.of_several(results)
        if result.replay is not None:
            result.replay = replace(result.replay, arrays=tuple(arrays))
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
        from cutlass.cute import Tensor

        was: Any = self._examples.get(name)
        fix = ""
        if not isinstance(was, Tensor):
            return
        if not isinstance(value, Tensor):
            wanted, given = "a tensor", "None" if value is None else f"a value of type {type(value).__name__}"
        elif type(was) is type(value) and was.__cache_key__ != value.__cache_key__:
            wanted, given = _form(was), _form(value)
            fix = "compile it again, or compile it for a dynamic layout: from_dlpack(array).mark_layout_dynamic()"
        else:
            return
        raise refuse("I104", f"argument {name}: the host function was compiled for {wanted}, this is {given}", fix=fix)


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
    if not made.has_gpu_module:
        raise refuse("I107", "CuTe DSL has written no PTX for the host function", fix="launch a kernel in it")
    cuda.install().bridge.store.add(made.__cubin__, made.__ptx__)
    made.execution_args._full_arg_check = True  # a number that is none is refused, and not taken for no argument
    names = [name for name in made.execution_args.original_signature.parameters if name != "self"]
    return Compiled(made, made.__ptx__, dict(zip(names, examples, strict=False)))
