"""Snapshots: what all objects of a launch hold at a moment, so that the same objects can hold it again.

Handlers keep views of memory and functions that refer to barriers and warps. So nothing is copied for later use in place of the original:
the objects stay, and their contents are put back.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import chain
from types import BuiltinFunctionType, CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Snapshot", "Snapshots"]

_CHUNK = 1 << 16
"""Bytes of memory that are kept together: those that do not change are shared with the snapshot before."""
_MOST, _MOST_BYTES = 64, 1 << 30
"""How many snapshots are kept, and how many bytes of memory."""
_DISTANCE, _COSTS = 0.05, 10
"""Seconds of execution between two snapshots: so many, and so many times what one costs."""
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), range, type, Enum, np.generic, np.dtype, ModuleType)
_CONSTANT = (
    *("diagnostics", "tables", "native", "formats", "layout", "numerics", "descriptors", "ptx"),
    *("engine.program", "engine.llvm", "isa.operands", "isa.catalogue"),
)
"""What objects of these packages and modules hold does not depend on what a launch has done."""


class Snapshot:
    """What objects hold, and all that they refer to.

    Parameters
    ----------
    roots : the objects
    apart : objects that are left as they are
    before : another snapshot, which shares memory that is the same
    step : the number of the last point before it
    attributes : for the caller: what an object among those apart refers to

    Examples
    --------
    >>> memory, queue = np.zeros(3, np.uint8), [1]
    >>> kept = Snapshot([queue, memory])
    >>> memory[:] = 7
    >>> queue.append(memory)
    >>> kept.restore()
    >>> memory.tolist(), queue
    ([0, 0, 0], [1])
    """

    def __init__(
        self,
        roots: Iterable[Any],
        apart: Iterable[Any] = (),
        before: Snapshot | None = None,
        step: int = -1,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.step = step
        self.attributes = {} if attributes is None else attributes
        self.added = 0
        """Bytes of memory that are not shared with the snapshot before."""
        self._memories: dict[int, tuple[NDArray[Any], list[bytes]]] = {}
        self._held: list[tuple[Any, Any]] = []
        self._before = {} if before is None else before._memories
        self._seen: dict[int, Any] = {id(each): each for each in apart}
        self._waiting = list(roots)
        while self._waiting:
            self._visit(self._waiting.pop())
        self._before, self._seen = {}, {}

    def restore(self) -> None:
        """Make all objects hold what they held."""
        for array, chunks in self._memories.values():
            held = _bytes_of(array)
            for number, chunk in enumerate(chunks):
                held[number * _CHUNK : number * _CHUNK + len(chunk)] = np.frombuffer(chunk, np.uint8)
        for each, contents in self._held:
            _put_back(each, contents)

    # ------------------------------------------------------------------------------------------------------------- objects

    def _visit(self, each: Any) -> None:
        if id(each) not in self._seen:
            self._seen[id(each)] = each
            (_VISITED.get(type(each)) or _visited(each))(self, each)

    def _add(self, found: Collection[Any]) -> None:
        """Let objects be visited, unless all of them are of classes that never change."""
        if not _CONSTANT_CLASSES.issuperset(map(type, found)):
            self._waiting += found

    def _visit_dict(self, each: dict[Any, Any]) -> None:
        self._hold(each, dict(each))
        self._add(each)
        self._add(each.values())

    def _visit_items(self, each: Any) -> None:
        self._hold(each, list(each))
        self._add(each)

    def _visit_cell(self, each: CellType) -> None:
        self._hold(each, each.cell_contents)
        self._waiting.append(each.cell_contents)

    def _visit_instance(self, each: Any) -> None:
        attributes = _attributes(each)
        if not _kind_of(each).frozen:
            self._hold(each, attributes)
        self._add(attributes.values())

    def _visit_array(self, array: NDArray[Any]) -> None:
        base: Any = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        if id(base) in self._memories or not base.flags.writeable:
            return
        self._seen[id(base)] = base
        if base.dtype.hasobject:
            self._hold(base, base.tolist())
            self._waiting += base.reshape(-1).tolist()
            return
        held = _bytes_of(base)
        _, before = self._before.get(id(base), (None, ()))
        chunks: list[bytes] = []
        for number, start in enumerate(range(0, held.size, _CHUNK)):
            chunk = held[start : start + _CHUNK]
            old = before[number] if number < len(before) else b""
            same = len(old) == chunk.size and np.array_equal(np.frombuffer(old, np.uint8), chunk)
            chunks.append(old if same else chunk.tobytes())
            self.added += 0 if same else chunk.size
        self._memories[id(base)] = base, chunks

    def _hold(self, each: Any, contents: Any) -> None:
        self._held.append((each, contents))


class Snapshots:
    """The snapshots of an execution: close to each other where it is now, further apart where it was long ago.

    Attributes
    ----------
    taken : in the order of their points; the first one is the start of the launch, and stays
    """

    def __init__(self) -> None:
        self.taken: list[Snapshot] = []
        self._next = 0.0

    def wanted(self, step: int) -> bool:
        """Whether it is time for another snapshot, at a point."""
        return time.thread_time() >= self._next and all(each.step != step for each in self.taken)

    def take(self, step: int, roots: Iterable[Any], apart: Iterable[Any], attributes: Mapping[str, Any]) -> None:
        """Take a snapshot at a point."""
        began = time.thread_time()
        at = sum(each.step < step for each in self.taken)
        before = self.taken[at - 1] if at else None
        self.taken.insert(at, Snapshot(roots, apart, before, step, attributes))
        if len(self.taken) > _MOST or sum(each.added for each in self.taken) > _MOST_BYTES:
            del self.taken[1 : len(self.taken) // 2 : 2]
        ended = time.thread_time()
        self._next = ended + max(_DISTANCE, _COSTS * (ended - began))

    def before(self, step: int) -> Snapshot:
        """The last snapshot from which a point can be reached."""
        return [each for each in self.taken if each.step < max(step, 0)][-1]

    def forget_from(self, step: int) -> None:
        """Forget what follows a point: something else is chosen there."""
        self.taken = [each for each in self.taken if each.step < max(step, 0)]


def _leave(snapshot: Snapshot, each: Any) -> None:
    """An object that never changes, and refers to nothing that does."""


def _refuse(snapshot: Snapshot, each: Any) -> None:
    raise TypeError(f"{each!r} cannot be put back")


_Visit = Callable[[Snapshot, Any], None]

_VISITS: tuple[tuple[Any, _Visit], ...] = (
    (_PLAIN, _leave),
    (np.ndarray, Snapshot._visit_array),
    (memoryview, lambda snapshot, each: snapshot._waiting.append(each.obj)),
    (dict, Snapshot._visit_dict),
    ((list, set, deque), Snapshot._visit_items),
    ((tuple, frozenset), Snapshot._add),
    (CellType, Snapshot._visit_cell),
    (random.Random, lambda snapshot, each: snapshot._hold(each, each.getstate())),
    (partial, lambda snapshot, each: snapshot._waiting.extend((each.func, each.args, each.keywords))),
    (FunctionType, lambda snapshot, each: snapshot._waiting.extend((*(each.__closure__ or ()), *(each.__defaults__ or ())))),
    ((MethodType, BuiltinFunctionType), lambda snapshot, each: snapshot._waiting.append(each.__self__)),
    (Iterator, _refuse),
)
"""How objects are visited, by their classes: the first one that fits."""
_VISITED: dict[type, _Visit] = {}
"""The same, by the class itself."""
_CONSTANT_CLASSES: set[type] = set()
"""Those classes there whose objects are left."""


def _visited(each: Any) -> _Visit:
    """How an object is visited, found once for its class."""
    visit = next((visit for kinds, visit in _VISITS if isinstance(each, kinds)), None)
    if visit is None:
        visit = _leave if _kind_of(each).constant else Snapshot._visit_instance
    _VISITED[type(each)] = visit
    if visit is _leave:
        _CONSTANT_CLASSES.add(type(each))
    return visit


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array that owns its memory."""
    return array.reshape(-1, order="A").view(np.uint8)


class _Kind(NamedTuple):
    """What is known of all objects of a class: whether they never change, whether only what they refer to may, and their slots."""

    constant: bool
    frozen: bool
    slots: tuple[str, ...]


_KINDS: dict[type, _Kind] = {}


def _kind_of(each: Any) -> _Kind:
    kind = type(each)
    found = _KINDS.get(kind)
    if found is None:
        package, _, rest = kind.__module__.partition(".")
        constant = package != "ptxlab" or any(rest == name or rest.startswith(name + ".") for name in _CONSTANT)
        frozen = bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))
        named = (base.__dict__.get("__slots__", ()) for base in kind.__mro__)
        names = chain.from_iterable((slots,) if isinstance(slots, str) else slots for slots in named)
        slots = tuple(name for name in names if isinstance(getattr(kind, name), MemberDescriptorType))
        found = _KINDS[kind] = _Kind(constant, frozen, slots)
    return found


def _attributes(each: Any) -> dict[str, Any]:
    held = {name: getattr(each, name) for name in _kind_of(each).slots if hasattr(each, name)}
    return getattr(each, "__dict__", {}) | held


def _put_back(each: Any, contents: Any) -> None:
    if isinstance(each, dict):
        each.clear()
        each.update(contents)
    elif isinstance(each, list):
        each[:] = contents
    elif isinstance(each, set | deque):
        each.clear()
        each.update(contents) if isinstance(each, set) else each.extend(contents)
    elif isinstance(each, CellType):
        each.cell_contents = contents
    elif isinstance(each, random.Random):
        each.setstate(contents)
    elif isinstance(each, np.ndarray):
        each[...] = contents
    else:
        for name in _attributes(each).keys() - contents.keys():
            delattr(each, name)
        for name, value in contents.items():
            object.__setattr__(each, name, value)
