"""Dataclasses whose methods are compiled late, beside those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from ptxlab import _records

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
]


def classes(decorator: Callable[..., Any], options: dict[str, Any]) -> tuple[type, type]:
    """A class with every kind of field, and one derived from it."""

    @decorator(**options)
    class Base:
        """What has fields."""

        SHARED: ClassVar[int] = 3
        a: int
        b: tuple[int, ...] = (1,)
        c: list[int] = field(default_factory=list)
        d: int = field(default=4, repr=False, compare=False, kw_only=True)
        e: int = field(default=5, init=False)
        f: list[int] = field(default_factory=lambda: [6], init=False)

    @decorator(**options)
    class Derived(Base):
        """What has more."""

        g: int = 7
        h: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "h", self.a + self.g)

        def __repr__(self) -> str:
            return f"<{self.a}>"

    for made in (Base, Derived):
        made.__qualname__ = made.__name__
    return Base, Derived


def outcome(act: Callable[[], Any]) -> Any:
    """What a call gives, or its error."""
    try:
        return act()
    except (TypeError, AttributeError) as error:
        return type(error), None if isinstance(error, TypeError) else str(error)


def behaviour(cls: type, options: dict[str, Any]) -> list[Any]:
    """What can be seen of a class."""
    arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1,), {}),
        ((1, (2,), [3]), {"d": 9}),
        ((), {"a": 1, "d": 2}),
        ((1,), {"x": 1}),
    ]
    found: list[Any] = []
    for positional, named in arguments:
        made = [outcome(lambda: cls(*positional, **named)) for _ in range(2)]  # noqa: B023
        if isinstance(made[0], tuple):
            found.append(made[0])
            continue
        one, two = made
        values = [getattr(one, each.name) for each in dataclasses.fields(one)]
        if "eq" in options:  # the text has an address
            same: list[Any] = [one == two, one != two, hash(one) != hash(two)]
        else:
            same = [one == two, one != two, one == 3, outcome(lambda: isinstance(hash(one), int)), repr(one)]  # noqa: B023
        assert one.c is not two.c or positional[2:]
        found += [values, same, [getattr(copy.copy(one), each.name) for each in dataclasses.fields(one)], dataclasses.asdict(one)]
        found.append(outcome(lambda: setattr(one, "a", 5)))  # noqa: B023
        found.append(outcome(lambda: delattr(one, "a")))  # noqa: B023
        found.append(outcome(lambda: setattr(one, "missing", 5)) is None)  # noqa: B023
    found += [cls.__match_args__, hasattr(cls, "__slots__"), cls.__dataclass_params__.frozen, cls.__doc__]  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_as_dataclasses_of_the_standard_library(options: dict[str, Any]) -> None:
    ours, theirs = classes(_records.dataclass, options), classes(dataclasses.dataclass, options)
    for mine, other in zip(ours, theirs, strict=True):
        assert behaviour(mine, options) == behaviour(other, options)


@_records.dataclass(frozen=True, slots=True)
class Kept:
    """An object that goes to another process."""

    a: int
    b: tuple[int, ...] = ()


def test_pickling_and_replacing() -> None:
    kept = Kept(1, (2,))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert dataclasses.replace(kept, a=3) == Kept(3, (2,))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        kept.a = 2  # type: ignore[misc]


def test_a_method_is_compiled_once() -> None:
    first = Kept.__init__
    Kept(1)
    assert Kept.__init__ is Kept.__init__
    compiled = Kept.__init__
    Kept(2)
    assert Kept.__init__ is compiled
    assert first is compiled or first.__code__ is not compiled.__code__
    assert compiled.__qualname__ == "Kept.__init__"


def test_a_frozen_class_has_no_mutable_subclass() -> None:
    with pytest.raises(TypeError, match="frozen"):

        @_records.dataclass(slots=True)
        class Mutable(Kept):
            """Not allowed."""
