"""Runs cells on an executor: each result appears once, also if workers end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait

from ptxlab.campaign._sources import Files, source_of
from ptxlab.campaign.cell import Cell, CellResult, failure, run_cell
from ptxlab.campaign.executors import Executors

__all__ = ["run_cells"]

_ATTEMPTS = 3
"""How often a cell may end its worker before it is given up."""


def run_cells(cells: Iterable[Cell], executors: Executors) -> Iterator[CellResult]:
    """Run cells; their sources are those that `add_source` keeps.

    If processes of the executor end, the cells that were given to it run again, one at a time, so that the one that ends its process is
    known. It is given up after three attempts, and its result says so.

    Parameters
    ----------
    cells : the cells; no two are equal
    executors : what runs them

    Yields
    ------
    CellResult
        one for each cell, in the order in which they end
    """
    run = _Run(cells, executors)
    try:
        while run.submit():
            yield from run.collect()
    finally:
        run.close()


class _Run:
    def __init__(self, cells: Iterable[Cell], executors: Executors) -> None:
        self._executors = executors
        self._executor: Executor | None = None
        self._waiting = iter(cells)
        self._again: deque[tuple[Cell, Files | None]] = deque()
        self._suspects: deque[Cell] = deque()
        self._attempts: Counter[str] = Counter()
        self._running: dict[Future[CellResult | None], Cell] = {}

    def submit(self) -> bool:
        """Give cells to the executor, as many as it takes at a time; False if none is left."""
        most = 1 if self._suspects else self._executors.in_flight
        while len(self._running) < most and (given := self._next()) is not None:
            cell, files = given
            if self._executor is None:
                self._executor = self._executors.make()
            try:
                self._running[self._executor.submit(run_cell, cell, files)] = cell
            except BrokenExecutor:
                self._suspects.append(cell)
                self._reopen()
        return bool(self._running)

    def _next(self) -> tuple[Cell, Files | None] | None:
        if self._suspects:
            return self._with_files(self._suspects.popleft())
        if self._again:
            return self._again.popleft()
        cell = next(self._waiting, None)
        return None if cell is None else (cell, None)

    def collect(self) -> Iterator[CellResult]:
        """The results of the cells that have ended; cells whose worker ended are kept for another attempt."""
        alone = len(self._running) == 1
        broken = False
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            cell = self._running.pop(future)
            try:
                result = future.result()
            except BrokenExecutor as error:
                broken = True
                yield from self._failed(cell, error, blamed=alone)
            except Exception as error:
                yield from self._failed(cell, error, blamed=True)
            else:
                if result is None:
                    self._again.append(self._with_files(cell))
                else:
                    yield result
        if broken:
            self._suspects.extend(self._running.values())
            self._running.clear()
            self._reopen()

    @staticmethod
    def _with_files(cell: Cell) -> tuple[Cell, Files]:
        source = source_of(cell.source, None)
        assert source is not None
        return cell, source.files

    def _failed(self, cell: Cell, error: BaseException, *, blamed: bool) -> Iterator[CellResult]:
        self._attempts[cell.key] += blamed
        if self._attempts[cell.key] < _ATTEMPTS:
            self._suspects.append(cell)
        else:
            reason = str(error) or type(error).__name__
            yield failure(cell, f"the worker that ran it ended {_ATTEMPTS} times: {reason}")

    def _reopen(self) -> None:
        self.close()
        self._executor = None

    def close(self) -> None:
        """Cancel what has not begun."""
        for future in self._running:
            future.cancel()
        if self._executor is not None:
            self._executor.shutdown(wait=False)
