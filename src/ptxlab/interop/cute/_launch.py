"""Compiled host functions and their launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ptxlab.interop.cute._arguments import copied, example, is_tensor
from ptxlab.interop.cute._calls import HostCall
from ptxlab.interop.cute._compile import compiling_for, cutlass, loaded
from ptxlab.machine import Device, Kernel, Module, Result
from ptxlab.machine.launch.options import LaunchOptions, refuse
from ptxlab.machine.observe.observer import tracing
from ptxlab.machine.replay.replay import Placed

__all__ = ["Compiled", "compile"]


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
            raise refuse("I104", f"argument {name}: the host function was compiled for a tensor, this is {_text(value)}")
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


def _text(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


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
