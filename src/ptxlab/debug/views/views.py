"""Views of a session: operands as matrices, copied tiles, who wrote a value, what differs between two points, what checks find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from ptxlab.debug._execution import NEVER, Look
from ptxlab.debug._findings import CheckFinding, check, ends_threads, is_access
from ptxlab.debug._points import DebugError, Event, Point, refuse, warp_name
from ptxlab.debug._registers import RegisterValues
from ptxlab.debug.motion.backwards import Motion
from ptxlab.debug.motion.forwards import interruptible
from ptxlab.debug.views.differences import State, differences
from ptxlab.debug.views.operands import OperandView, TileView, described_matrix, view_of, views_of_tiles
from ptxlab.debug.views.source_variables import Location, SourceVariable, variables_at, variables_of
from ptxlab.isa.effects import Asynchronous

if TYPE_CHECKING:
    from ptxlab.debug._report import Stop
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.isa.operations.products import Product
    from ptxlab.layout import Major

__all__ = ["Views"]

T = TypeVar("T")


class Views(Motion):
    """What a session shows beyond single values. The launch stands where it stood afterwards."""

    def operands(self, operation: int | None = None) -> OperandView:
        """The operands of a matrix instruction, as it takes them.

        Parameters
        ----------
        operation : an outstanding asynchronous operation, with what it would take now; default: that which is about to perform here, or
            the instruction at which the launch stands, with what it takes when it performs
        """
        found = self._operation(operation)
        if found is not None:
            if found.details is None:
                raise refuse("G103", f"{found.op.opcode} at line {found.op.line} multiplies no matrices", fix="see `operations`")
            return view_of(found.op, found.details())

        def take(operation: AsyncOperation) -> OperandView | None:
            return None if operation.details is None else view_of(operation.op, operation.details())

        return self._ahead(
            take, lambda point, product: view_of(point.op, product) if point.op is not None else None, "multiplies no matrices"
        )

    def tiles(self, operation: int | None = None) -> list[TileView]:
        """The boxes that a copy by a tensor map places in shared memory; ``operation`` as for `operands`."""
        found = self._operation(operation)
        if found is not None:
            if found.tiles is None:
                raise refuse("G103", f"{found.op.opcode} at line {found.op.line} copies no box to shared memory", fix="see `operations`")
            return views_of_tiles(found.tiles())

        def take(operation: AsyncOperation) -> list[TileView] | None:
            return None if operation.tiles is None else views_of_tiles(operation.tiles())

        return self._ahead(take, lambda point, product: None, "copies no box to shared memory")

    def matrix(
        self, descriptor: int, rows: int, k: int, element: str, major: Major = "k", wgmma: bool = False, padded: bool = False
    ) -> NDArray[Any]:
        """The matrix [rows, k] that an instruction would read through a shared-memory descriptor in the chosen CTA, as numbers.

        Parameters
        ----------
        descriptor : the 64 bits
        rows : M of matrix A, or N of matrix B
        element : the element type: ``f16``, ``e4m3``
        major : ``"k"``, or ``"mn"`` for a transposed matrix
        wgmma : a descriptor of wgmma, not of tcgen05
        padded : 4-bit elements as ``kind::f8f6f4`` takes them: 16 of them in 16 bytes, the first 8 of which are used
        """
        return described_matrix(self._cta(), descriptor, rows, k, element, major, wgmma, padded)

    @cached_property
    def _source_variables(self) -> list[SourceVariable]:
        return variables_of(self.launch.module.text)

    def variables(self) -> list[dict[str, Any]]:
        """The source variables of the chosen thread where it stands, if the PTX has debug information (``nvcc -G``).

        Each has ``name``, ``type`` and ``value``, which is None where the variable has none, and a list for an array.
        """
        op = self.op()
        found = []
        for each in [] if op is None else variables_at(self._source_variables, op.line):
            place = each.at(op.line) if op is not None else None
            try:
                value = None if place is None else self._value_at(each, place)
            except DebugError:
                value = None
            found.append({"name": each.name, "type": each.type.name, "value": value})
        return found

    def _value_at(self, variable: SourceVariable, place: Location) -> Any:
        kind = variable.type
        if place.offset is not None:
            start = self._address(variable.space or "local", place.name) + place.offset
            values = self.memory(variable.space or "local", start, kind.count or 1, kind.element).tolist() if kind.element else None
            return values if values is None or kind.count is not None else values[0]
        register = self.register(place.name)
        if register.undefined[self.focus.lane] or not kind.element or kind.count is not None:
            return None
        bits = 8 * kind.size
        raw = register.raw[self.focus.lane] & (1 << bits) - 1
        return RegisterValues(place.name, kind.element, bits, (raw,), (0,)).value(0)

    def written(self, watch: Callable[[], object]) -> Stop:
        """Go back to behind the last instruction or operation that has changed a value.

        Parameters
        ----------
        watch : sets a watchpoint at the value: ``lambda: session.watch_register("%r3")``
        """
        with self.stops.set_aside(self._stepper.program.ops):
            watch()
            return self.run_back()

    def differences(self, step: int) -> list[dict[str, Any]]:
        """What differs here from another point: registers of the chosen warp, memories, barriers."""
        name, here = self._focused[0], self.point.step
        now = State.of(self._execution, name)
        with self._elsewhere():
            self._travel(step)
            if self.point.step != step:
                raise refuse("G104", f"the launch has no point {step}; it ends at {self.point.step}")
            then = State.of(self._execution, name)
        return differences(then, now) if step < here else differences(now, then)

    # -------------------------------------------------------------------------------------------------------------- findings

    def check(self) -> list[CheckFinding]:
        """Run the checks of the launch, and find the points at which they find something; `run` stops there from now on.

        They hold for the order of a plain launch, and are forgotten when something else is chosen.
        """
        if self._choices:
            raise refuse("G104", "the checks run in the order of a plain launch, and something else is chosen", fix="go back before it")
        found = check(self._replay)
        own: list[Diagnostic] = []

        def see(point: Point) -> None:
            if point.finding is not None:
                own.append(point.finding)
            for each in found:
                if each.step < 0 and each.is_at(self._execution, point):
                    each.step = point.step

        ops = frozenset(each.op.index for each in found if each.op is not None)
        ops |= {op.index for op in self.launch.program.ops if ends_threads(op)}
        with self._elsewhere():
            self._scan(see, Look(ops), 0, NEVER)
        reported = {(each.code, each.place) for each in own}
        found = [each for each in found if (each.finding.code, each.finding.place) not in reported]
        self.stops.found.clear()
        for each in found:
            self.stops.found.setdefault(each.step, []).append(each)
        return found

    @interruptible
    def earlier_access(self) -> Stop:
        """Go back to the earlier of the two accesses that the finding here is about."""
        access = next((each.earlier for each in self.stops.found.get(self.point.step, ()) if each.earlier is not None), None)
        if access is None:
            raise refuse("G104", "no finding about two accesses has been made here", fix="go on to one: with checks, continue stops there")
        found: list[int] = []

        def see(point: Point) -> None:
            if is_access(self._execution, point, access):
                found.append(point.step)

        for first, end in self._stretches():
            self._scan(see, Look(frozenset((access.op.index,))), first, end)
            if found:
                break
        return self._back_to(found[-1] if found else None, "earlier access")

    # ------------------------------------------------------------------------------------------------------------- elsewhere

    @contextmanager
    def _elsewhere(self) -> Iterator[None]:
        """Come back to this point afterwards."""
        here, focus, hits = self.point.step, self.focus, self._hits
        try:
            yield
        finally:
            self._return_to(here, anew=True)
            self.focus, self._hits = focus, hits

    def _operation(self, number: int | None) -> AsyncOperation | None:
        """An outstanding operation by number; without one that which is about to perform."""
        if number is None:
            return self.point.operation
        found = next((operation for operation, known in self._execution.numbers.items() if known == number), None)
        if found is None:
            raise refuse("G104", f"no operation {number} is outstanding", fix="see `operations`")
        return found

    def _ahead(self, take: Callable[[AsyncOperation], T | None], take_product: Callable[[Point, Product], T | None], what: str) -> T:
        """Execute the instruction here, and what it issues; return what is taken of it, and come back."""
        point, execution = self.point, self._execution
        if point.event is not Event.INSTRUCTION or point.op is None or point.warp is None or not point.mask:
            raise refuse("G104", "no thread is about to execute an instruction here", fix="go to where one does")
        asynchronous = isinstance(point.op.effects, Asynchronous)
        issued = execution.issued_operations
        name = warp_name(point.warp)
        found: list[T] = []

        def multiplied(product: Product) -> None:
            taken = take_product(point, product)
            found.extend([] if taken is None else [taken])

        def decide(other: Point) -> bool:
            operation = other.operation
            if operation is not None and execution.numbers[operation] >= issued and operation.op is point.op:
                taken = take(operation)
                found.extend([] if taken is None else [taken])
                return True
            mine = other.warp is not None and warp_name(other.warp) == name and other.event is Event.INSTRUCTION
            return bool(found) or (mine and not asynchronous)

        with self._elsewhere():
            execution.multiplied_hook = multiplied
            try:
                execution.advance(decide, Look(frozenset(), thread=(name, self.focus.lane)))
            finally:
                execution.multiplied_hook = None
        if not found:
            raise refuse("G103", f"{point.op.opcode} at line {point.op.line} {what}", fix="go to an instruction that does")
        return found[0]
