"""From the syntax tree of a function to a `Program`."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab._digests import blake2b
from ptxlab.diagnostics import Diagnostic, Place, PtxlabError, diagnose
from ptxlab.engine.lowering._basic_blocks import Item, link
from ptxlab.engine.lowering._contraction import contract as contract_program
from ptxlab.engine.lowering._inlining import begin_stack, call, jump, uses_stack
from ptxlab.engine.lowering._named_operands import NamedOperands, Undeclared
from ptxlab.engine.lowering.frame import assign_frame, find_liveness
from ptxlab.engine.lowering.functions import called_functions
from ptxlab.engine.lowering.loaded.values import find_loaded_values
from ptxlab.engine.lowering.matching import Mismatch, candidates, fits
from ptxlab.engine.lowering.scope import Scope, Table, names, near, variables
from ptxlab.engine.lowering.variable_layout import local_layout, parameter_layout, shared_layout
from ptxlab.engine.program import Program
from ptxlab.isa import load_families
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.catalogue import Control, Qualifiers, Row
from ptxlab.isa.control import inserted
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Op, Reg, Resolved, SymbolAddress, Unused
from ptxlab.native.collection import collection_paused
from ptxlab.ptx import TextOrder, ast, line_text, operand_span, text_without_bodies

__all__ = ["Lowering", "lower", "resolve"]

_MOST_ERRORS = 100
_UNUSED = Unused()


def lower(module: ast.Module, function: ast.Function, *, contract: bool = False) -> Program:
    """Resolve the names of an entry function, match its instructions with the catalogue, and lay out registers and variables.

    Parameters
    ----------
    module, function : from the parser; the function must have a body
    contract : fuse multiplications and additions without a rounding modifier

    Raises
    ------
    PtxlabError
        with a diagnostic for each thing that is wrong (100 at most)
    """
    with collection_paused():
        return resolve(module, function).program(contract)


def resolve(module: ast.Module, function: ast.Function) -> Lowering:
    """The first half of `lower`, which raises what it raises; `Lowering.program` is the second one."""
    load_families()
    with collection_paused():
        lowering = Lowering(module, function)
        lowering.resolve()
    return lowering


class Lowering(NamedOperands):
    """One function being lowered."""

    def __init__(self, module: ast.Module, function: ast.Function) -> None:
        self.module = module
        self.function = function
        self.table = Table()
        self.errors: list[Diagnostic] = []
        self.items: list[Item] = []
        self.labels: list[int] = []  # label number -> index of the item after it
        self.symbols: dict[str, None] = {}
        self.globals: dict[str, ast.Variable] = {}
        self.local_at: dict[int, int] = {}
        self.shared_at: dict[int, int] = {}
        self.calling: dict[str, int] = {}  # functions that are being inlined -> label number after their body
        self.calls: tuple[tuple[str, int], ...] = ()  # the same functions, and the lines of the calls

    # ------------------------------------------------------------------------------------------------------------ errors

    def error(
        self,
        statement: ast.Instruction | ast.RegisterDeclaration | ast.Function,
        code: str,
        message: str,
        fix: str = "",
        at: str | int = "",
    ) -> None:
        """Note an error at a statement: at a word in it, or at its operand of this number."""
        line, column, length = statement.line, statement.column, 0
        if isinstance(at, int):
            assert isinstance(statement, ast.Instruction)
            line, column, length = operand_span(self.module, statement, at)
        elif at:
            found = line_text(self.module, line).find(at, max(column - 1, 0))
            if found >= 0:
                column, length = found + 1, len(at)
        place = Place(self.module.file, line, column, length)
        self.errors.append(diagnose(code, message, fix=fix).at(place, line_text(self.module, line).rstrip()))
        if len(self.errors) >= _MOST_ERRORS:
            raise PtxlabError(*self.errors)

    # ------------------------------------------------------------------------------------------------------- declarations

    def resolve(self) -> None:
        """Resolve names, and match instructions with rows."""
        function = self.function
        if function.body is None:
            self.error(function, "U210", f"{function.name} is declared but has no body", "link the module that defines it", function.name)
            raise PtxlabError(*self.errors)
        for item in self.module.items:
            if isinstance(item, ast.Variable):
                known = self.globals.get(item.name)
                if known is None or known.linkage == "extern":
                    self.globals[item.name] = item
        self.parameter_list, self.param_bytes = parameter_layout(function.params)
        self.parameters = {p.name: PARAM_BASE + p.offset for p in self.parameter_list}
        self.called = called_functions(self.module, function)
        bodies = [each.body for each in self.called if each.body is not None]
        mentioned = frozenset(name for body in bodies for name in names(body))
        module_shared = [v for v in self.globals.values() if v.space.startswith("shared") and v.name in mentioned]
        module_local = [v for v in self.globals.values() if v.space == "local"]
        body_variables = [v for body in bodies for v in variables(body)]
        for variable in (v for v in body_variables if v.space not in ("shared", "local", "reg", "param")):
            self.globals.setdefault(variable.name, variable)
        shared_variables = [*module_shared, *(v for v in body_variables if v.space.startswith("shared"))]
        self.shared, self.shared_at = shared_layout(shared_variables)
        formals = (v for each in self.called[1:] for v in (*each.params, *each.returns) if v.space == "param")
        local_variables = [*module_local, *(v for v in body_variables if v.space in ("local", "param")), *formals]
        offsets, self.local_bytes = local_layout(local_variables)
        self.local_at = {id(v): offset for v, offset in zip(local_variables, offsets, strict=True)}
        self.local_variables = {v.name: offset for v, offset in zip(local_variables, offsets, strict=True)}
        if any(uses_stack(body) for body in bodies):
            self.local_bytes = begin_stack(self, function, bodies, self.local_bytes)
        self.block(function.body, Scope())
        if not self.items or self.items[-1].falls or len(self.items) in self.labels:
            last = self.insert(inserted.EXIT, line=self.items[-1].op.line if self.items else function.line, column=1)
            last.ends, last.falls = True, False
        if self.errors:
            raise PtxlabError(*sorted(self.errors, key=lambda d: (d.place.line, d.place.column) if d.place else (0, 0)))

    def program(self, contracted: bool = False, executable: bool = True) -> Program:
        """The program of what has been resolved; ``executable``: with a frame, and all else that only its execution needs."""
        function = self.function
        ops, blocks = link(self.items, self.labels)
        text = f"{function.name}\0{contracted}\0{text_without_bodies(self.module, self.called)}"
        program = Program(
            name=function.name,
            ops=ops,
            blocks=blocks,
            registers=self.table.registers,
            frame_bytes=0,
            parameters=self.parameter_list,
            param_bytes=self.param_bytes,
            shared=self.shared,
            local_bytes=self.local_bytes,
            symbols=list(self.symbols),
            directives=dict(function.directives),
            text_order=TextOrder(self.module),
            local_variables=self.local_variables,
            digest=blake2b(text.encode()).hexdigest() if self.module.text else "",
        )
        if contracted:
            contract_program(program)
        if executable:
            assign_frame(program)
            find_loaded_values(program)
        else:
            find_liveness(program)
        return program

    def _declare(self, block: ast.Block, scope: Scope) -> None:
        for statement in [each for each in block.statements if type(each) is not ast.Instruction]:
            if isinstance(statement, ast.RegisterDeclaration):
                for name, count in statement.names:
                    if not type_bits(statement.type):
                        self.error(statement, "U206", f"registers cannot be .{statement.type}", "", name)
                    elif count is None:
                        scope.registers[name] = (statement.type, statement.vector)
                    else:
                        scope.ranges[name] = (statement.type, count)
                        scope.digits_in_stems |= name[-1].isdigit()
            elif isinstance(statement, ast.Variable):
                scope.variables[statement.name] = statement
            elif isinstance(statement, ast.Label):
                scope.labels[statement.name] = self.new_label()
            elif isinstance(statement, ast.Targets | ast.CallPrototype):
                scope.targets[statement.label] = statement

    def block(self, root: ast.Block, top: Scope) -> None:
        """Walk the nested blocks without recursion; each has its own scope."""
        self._declare(root, top)
        work: list[tuple[Iterator[ast.Statement], Scope]] = [(iter(root.statements), top)]
        instruction = ast.Instruction
        while work:
            rest, scope = work[-1]
            for statement in rest:
                if type(statement) is instruction:
                    self._instruction(statement, scope)
                elif isinstance(statement, ast.Label):
                    self.place(scope.labels[statement.name])
                elif isinstance(statement, ast.Block):
                    inner = Scope(scope)
                    self._declare(statement, inner)
                    work.append((iter(statement.statements), inner))
                    break
            else:
                work.pop()

    # ------------------------------------------------------------------------------------------------------- instructions

    def _instruction(self, statement: ast.Instruction, scope: Scope) -> None:
        opcode = statement.opcode
        rows = candidates(opcode)
        if not rows:
            from ptxlab.isa import refusal

            self.error(statement, *refusal(opcode), opcode)
            return
        try:
            if rows[0].row.semantics is Control.CALL:
                call(self, statement, scope)
                return
            guard = self.guard(statement, scope)
            known = scope.resolved
            found = [known.get(id(operand)) or self._find(operand, scope) for operand in statement.operands]
        except Undeclared as error:
            branches = rows[0].row.semantics in (Control.BRANCH, Control.INDEXED_BRANCH)
            code, name, message = error.args
            self.error(statement, *self._explained(code, name, message, branches, scope), name)
            return
        operands = [resolved for _, resolved, _ in found]
        match = fits(opcode, tuple([shape for _, _, shape in found]), operands, self.table)
        if isinstance(match, Mismatch):
            self.error(statement, match.code, f"{opcode}: {match.message}", at=match.position if match.position >= 0 else opcode)
            return
        candidate, fitted = match
        row = candidate.row
        if row.semantics is Control.RETURN and self.calling:
            jump(self, statement, next(reversed(self.calling.values())), guard)
            return
        item = self.add(opcode, row, candidate.q, fitted, guard, statement.line, statement.column)
        if row.kind == "control":
            item.ends, item.falls = True, guard is not None
            item.targets = self._targets(statement, item.op, scope)

    def add(self, opcode: str, row: Row, q: Qualifiers, operands: tuple[Resolved, ...], guard: Reg | None, line: int, column: int) -> Item:
        """Append an instruction."""
        self.items.append(Item(Op(len(self.items), opcode, row, q, operands, guard, line, column, calls=self.calls)))
        return self.items[-1]

    def insert(self, opcode: str, *operands: Resolved, line: int, column: int) -> Item:
        """Append an instruction of `isa.control.inserted`."""
        found = candidates(opcode)[0]
        given = (*operands, *[_UNUSED] * (len(found.specs) - len(operands)))
        return self.add(opcode, found.row, found.q, given, None, line, column)

    def new_label(self) -> int:
        """The number of a label that stands nowhere yet."""
        self.labels.append(-1)
        return len(self.labels) - 1

    def place(self, label: int) -> None:
        """Bind a label to the next instruction."""
        self.labels[label] = len(self.items)

    def find_targets(self, scope: Scope, name: str) -> ast.Targets | ast.CallPrototype | None:
        """The list of targets or the prototype of a label."""
        return next((each.targets[name] for each in scope.outwards() if name in each.targets), None)

    def _explained(self, code: str, name: str, message: str, branches: bool, scope: Scope) -> tuple[str, str, str]:
        """Code, message and fix for a name that is not defined; of a label, where the instruction ``branches``."""
        if code == "U205" and branches:
            labels = [label for each in scope.outwards() for label in each.labels]
            return "U204", f"the label {name} is not declared", near(name, labels)
        if code == "U203":
            ranges = [f"{stem}0 to {stem}{count - 1}" for each in scope.outwards() for stem, (_, count) in each.ranges.items() if count]
            stem = name.rstrip("0123456789")
            fitting = [text for text in ranges if text.startswith(f"{stem}0 ")]
            return code, message, f"{fitting[0]} are declared" if fitting else "declare it with .reg"
        if code == "U205":
            known = [*self.parameters, *self.globals, *(v for each in scope.outwards() for v in each.variables)]
            return code, message, near(name, known)
        return code, message, ""

    def guard(self, statement: ast.Instruction, scope: Scope) -> Reg | None:
        guard = statement.guard
        if guard is None:
            return None
        found = self.table.lookup(scope, guard.predicate)
        if found is None:
            raise Undeclared("U203", guard.predicate, f"the guard {guard.predicate} is not declared")
        if not isinstance(found, int) or self.table.registers[found].bits != 1:
            raise Undeclared("U208", guard.predicate, f"the guard {guard.predicate} is not a predicate register")
        return Reg(found, guard.negated)

    def _targets(self, statement: ast.Instruction, op: Op, scope: Scope) -> tuple[int, ...]:
        """The numbers of the labels that a control-flow instruction may branch to."""
        label = next((o.name for o in op.operands if isinstance(o, SymbolAddress) and o.space == "label"), "")
        names: tuple[str, ...] = ()
        if op.row.semantics is Control.BRANCH:
            names = (label,)
        elif op.row.semantics is Control.INDEXED_BRANCH:
            targets = self.find_targets(scope, label)
            if not isinstance(targets, ast.Targets) or targets.kind != "branchtargets":
                self.error(statement, "U204", f"{label} names no .branchtargets list", at=label)
                return ()
            names = targets.names
        found: list[int] = []
        for target in names:
            number = next((each.labels[target] for each in scope.outwards() if target in each.labels), None)
            if number is None:
                self.error(statement, "U204", f"the label {target} is not declared", at=target)
                return ()
            found.append(number)
        return tuple(found)
