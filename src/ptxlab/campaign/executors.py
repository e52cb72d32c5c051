"""Executors by name: processes and threads of this machine, a Dask cluster, or any other that a function makes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["ExecutorError", "Executors", "executors"]

T = TypeVar("T")
_NAMES = "processes, processes:N, threads:N, dask, dask:ADDRESS, or MODULE:FUNCTION"
_IN_FLIGHT = 64
_THREADS = frozenset({"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
"""Variables with the number of threads of NumPy's BLAS."""


class ExecutorError(PtxlabError):
    """An executor that cannot be used."""


@dataclass(frozen=True, slots=True)
class Executors:
    """Makes executors of one kind.

    Attributes
    ----------
    make : makes one; called again if the processes of the last one ended
    in_flight : how many cells are given to it at a time
    """

    make: Callable[[], Executor]
    in_flight: int = _IN_FLIGHT

    def results(self, function: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Call a function of a module with each of some arguments; yield what it returns, as the calls end.

        Examples
        --------
        >>> sorted(executors("threads:2").results(max, [(1, 2), (5, 3)]))
        [2, 5]
        """
        with self.make() as executor:
            running: set[Future[T]] = set()
            for arguments in calls:
                running.add(executor.submit(function, *arguments))
                while len(running) >= self.in_flight:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in as_completed(running))


class InThisProcess(Executor):
    """Runs each call at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the function, and return its result as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def executors(text: str | None) -> Executors:
    """Return what makes the executors that a text names.

    Parameters
    ----------
    text : ``processes`` (as many as cores), ``processes:N``, ``threads:N``, ``dask`` (a cluster of this machine), ``dask:ADDRESS``
        (of a scheduler, or the path of its scheduler file), or ``MODULE:FUNCTION``, a function without arguments that returns a
        `concurrent.futures.Executor`. None: cells run in this process, one after the other.

    Raises
    ------
    ExecutorError
        code F110 if there is no such executor

    Examples
    --------
    >>> with executors("threads:2").make() as executor:
    ...     executor.submit(max, 1, 2).result()
    2
    """
    if text is None:
        return Executors(InThisProcess, 1)
    kind, _, rest = text.partition(":")
    if kind in ("processes", "threads"):
        count = _count(text, rest) if rest else len(os.sched_getaffinity(0))
        make = _processes if kind == "processes" else ThreadPoolExecutor
        return Executors(lambda: make(count), 2 * count)
    if kind == "dask":
        return Executors(lambda: _dask(rest or None))
    if rest:
        return Executors(_function(text, kind, rest))
    raise _refused(f"there is no executor named {text!r}", f"name one of {_NAMES}")


def _refused(message: str, fix: str) -> ExecutorError:
    return ExecutorError(diagnose("F110", message, fix=fix))


def _count(text: str, digits: str) -> int:
    if not digits.isdecimal() or not 1 <= int(digits) <= 1024:
        raise _refused(f"{text!r}: the number of workers is 1 to 1024, not {digits!r}", f"name one of {_NAMES}")
    return int(digits)


class _WorkerProcess(SpawnProcess):
    """A process whose BLAS has one thread, unless the environment says how many: other processes use the other cores."""

    def start(self) -> None:
        given = dict.fromkeys(_THREADS - os.environ.keys(), "1")
        os.environ.update(given)
        try:
            super().start()
        finally:
            for name in given:
                del os.environ[name]


class _WorkerContext(SpawnContext):
    Process = _WorkerProcess


def _processes(count: int) -> Executor:
    return ProcessPoolExecutor(count, mp_context=_WorkerContext(), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))


def _dask(address: str | None) -> Executor:
    try:
        import distributed
    except ImportError:
        raise _refused("Dask is not installed", "pip install 'ptxlab[dask]'") from None
    try:
        is_file = address is not None and os.path.exists(address)
        where = {"scheduler_file": address} if is_file else {"address": address} if address else {"dashboard_address": None}
        client: Any = distributed.Client(**where)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise _refused(f"no Dask scheduler answers at {address}: {error}", "start one with `dask scheduler`") from None
    return _DaskExecutor(client)


class _DaskExecutor(Executor):
    """The executor of a client, which it closes: Dask's own leaves the client open, and the cluster that the client has started."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor: Executor = client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait and not cancel_futures)
        self._client.close()


def _function(text: str, module: str, name: str) -> Callable[[], Executor]:
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise _refused(f"{text!r} names no function: {error}", f"name one of {_NAMES}") from None

    def make() -> Executor:
        made = function()
        if not isinstance(made, Executor):
            raise _refused(f"{text!r} returned {type(made).__name__}, no concurrent.futures.Executor", f"name one of {_NAMES}")
        return made

    return make
