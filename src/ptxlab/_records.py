"""Dataclasses whose methods are compiled when they are first called.

`dataclasses.dataclass` compiles up to six functions for a class when it is defined, in a third of a millisecond. A process that
launches one kernel defines more than two hundred classes, and calls few of these functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False, kw_only: bool = False
    ) -> Any:
        """What `dataclasses.dataclass` does, with the parameters that this project uses.

        The fields are made by `dataclasses`, so that `dataclasses.fields`, `dataclasses.replace` and the like work.

        Examples
        --------
        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0), dataclasses.replace(Point(1), y=2)
        (Point(x=1, y=0), True, Point(x=1, y=2))
        """

        def made(cls: type[T]) -> type[T]:
            return _with_methods(cls, frozen, eq, slots, kw_only)

        return made if cls is None else made(cls)


def _with_methods(cls: type[T], frozen: bool, eq: bool, slots: bool, kw_only: bool) -> type[T]:
    own = vars(cls)
    defined = {name for name in own if name.startswith("__")}
    if own.get("__hash__") is None and "__eq__" in defined:  # Python has entered it
        defined.discard("__hash__")
    bases = (getattr(base, "__dataclass_params__", None) for base in cls.__mro__[1:])
    of_frozen = frozen and any(base is not None and base.frozen for base in bases)
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=of_frozen, slots=slots, kw_only=kw_only)(cls)
    methods: dict[str, Callable[[type], str]] = {"__init__": _frozen_init if frozen else _init, "__repr__": _repr}
    if eq:
        methods["__eq__"] = _eq
        if frozen:
            methods["__hash__"] = _hash
        elif "__hash__" not in defined:
            cls.__hash__ = None  # type: ignore[assignment]
    for name, text in methods.items():
        if name not in defined:
            _enter(cls, name, text)
    if frozen and not of_frozen:
        _freeze(cls, slots, defined)
        cls.__dataclass_params__.frozen = True  # type: ignore[attr-defined]
    return cls


def _enter(cls: type, name: str, text: Callable[[type], str]) -> None:
    """Give a class a method that compiles itself when it is first called."""

    def method(self: object, *args: Any, **given: Any) -> Any:
        scope: dict[str, Any] = {"_set": object.__setattr__, "_absent": MISSING, "_fields": cls.__dataclass_fields__}  # type: ignore[attr-defined]
        exec(text(cls), scope)
        compiled = recursive_repr()(scope[name]) if name == "__repr__" else scope[name]
        compiled.__module__, compiled.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
        setattr(cls, name, compiled)
        return compiled(self, *args, **given)

    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    setattr(cls, name, method)


def _freeze(cls: type, slots: bool, defined: set[str]) -> None:
    """Refuse assignments to the fields, and restore objects without one."""
    fields = frozenset(field.name for field in dataclasses.fields(cls))

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    methods: list[Callable[..., Any]] = [__setattr__, __delattr__]
    if slots and not {"__getstate__", "__setstate__"} & defined:
        methods += [_getstate, _setstate]
    for method in methods:
        setattr(cls, f"__{method.__name__.strip('_')}__", method)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


# ------------------------------------------------------------------------------------------------ texts of methods


def _listed(cls: type, of: str, wanted: Callable[[Field[Any]], Any]) -> str:
    return "(" + "".join(f"{of}.{field.name}, " for field in dataclasses.fields(cls) if wanted(field)) + ")"


def _eq(cls: type) -> str:
    mine, other = (_listed(cls, of, lambda field: field.compare) for of in ("self", "other"))
    return f"def __eq__(self, other):\n if other.__class__ is self.__class__:\n  return {mine} == {other}\n return NotImplemented"


def _hash(cls: type) -> str:
    return f"def __hash__(self):\n return hash({_listed(cls, 'self', lambda field: field.compare if field.hash is None else field.hash)})"


def _repr(cls: type) -> str:
    shown = ", ".join(f"{field.name}={{self.{field.name}!r}}" for field in dataclasses.fields(cls) if field.repr)
    return f"def __repr__(self):\n return f'{{self.__class__.__qualname__}}({shown})'"


def _frozen_init(cls: type) -> str:
    return _init(cls, "_set(self, {name!r}, {value})")


def _init(cls: type, assignment: str = "self.{name} = {value}") -> str:
    parameters: dict[bool, list[str]] = {False: [], True: []}
    body = []
    for field in dataclasses.fields(cls):
        name, about = field.name, f"_fields[{field.name!r}]"
        made, given = field.default_factory is not MISSING, field.default is not MISSING
        if field.init:
            default = "=_absent" if made else f"={about}.default" if given else ""
            parameters[bool(field.kw_only)].append(name + default)
        value = name if field.init else f"{about}.default"
        if made:
            value = f"{about}.default_factory()" + (f" if {name} is _absent else {name}" if field.init else "")
        if field.init or made or given:
            body.append(assignment.format(name=name, value=value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    named = ["*", *parameters[True]] if parameters[True] else []
    return f"def __init__({', '.join(['self', *parameters[False], *named])}):\n " + "\n ".join(body or ["pass"])
