"""Tasks that threads of other cores may do: to compile takes most of its time outside Python's lock."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

from ptxlab._records import dataclass

__all__ = ["Task", "spare_threads", "start"]

T = TypeVar("T")
_MOST = 3
"""As many as there is mostly work for; each takes some MiB of memory."""
_WAITING, _RUNNING, _DONE = range(3)


@dataclass(frozen=True)
class _Failure:
    """What a task has raised, in place of a result."""

    error: Exception


class _Pool:
    """The threads of this process, of which none waits for work: they end when no task is left."""

    def __init__(self, threads: int) -> None:
        self.most = threads
        self.threads = 0
        self.condition = Condition()
        self.queue: deque[Task[Any]] = deque()
        self.running: set[Task[Any]] = set()

    def add(self, task: Task[Any]) -> None:
        with self.condition:
            self.queue.append(task)
            if self.threads == self.most:
                return
            self.threads += 1
        try:
            Thread(target=self._work, name="ptxlab compiler", daemon=True).start()
        except RuntimeError:  # there can be no more threads, or the interpreter ends
            with self.condition:
                self.threads -= 1

    def _work(self) -> None:
        while (task := self._next()) is not None:
            self.perform(task)
        _release_memory()

    def _next(self) -> Task[Any] | None:
        with self.condition:
            if not self.queue:
                self.threads -= 1
                return None
            task = self.queue.popleft()
            self._claim(task)
            return task

    def _claim(self, task: Task[Any]) -> None:
        task.state = _RUNNING
        self.running.add(task)

    def claimed(self, task: Task[Any]) -> bool:
        """Wait until a task is done, or claim it for this thread."""
        with self.condition:
            while task.state == _RUNNING:
                self.condition.wait()
            if task.state != _WAITING:
                return False
            if task in self.queue:
                self.queue.remove(task)
            self._claim(task)
            return True

    def perform(self, task: Task[Any]) -> None:
        """Do a claimed task; an interrupt leaves it to whoever asks for the result next."""
        state = _WAITING
        try:
            task.value = task.work()
            state = _DONE
            del task.work  # and with it the text that has been compiled
        except Exception as error:
            task.value, state = _Failure(error), _DONE
        finally:
            with self.condition:
                task.state = state
                self.running.discard(task)
                self.condition.notify_all()

    def stop(self) -> None:
        """Drop what no thread has begun, and wait for the rest: LLVM must not run while the process ends."""
        with self.condition:
            self.queue.clear()
            while self.running:
                self.condition.wait()


class Task(Generic[T]):
    """Something that is done once: by a thread that is free (`start`), or else by the first one that asks for the result."""

    __slots__ = ("__weakref__", "state", "value", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work: Callable[[], T] = work
        self.state = _WAITING
        self.value: Any = None

    def result(self) -> T:
        """What it gives, or raise what it has raised; it is done again for whoever asks after that."""
        if _pool.claimed(self):
            _pool.perform(self)
        found = self.value
        if isinstance(found, _Failure):
            if self.value is found:
                self.state = _WAITING
            raise found.error
        result: T = found
        return result


def start(work: Callable[[], T]) -> Task[T]:
    """Have something done by a thread, if there may be one.

    Examples
    --------
    >>> start(lambda: 6 * 7).result()
    42
    """
    task = Task(work)
    if _pool.most:
        _pool.add(task)
    return task


def _release_memory() -> None:
    """Give back what the thread that ends has freed; its part of the heap would stay resident. Only glibc can do it."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))


def spare_threads() -> int:
    """How many tasks may run beside the thread that starts them: none on one core, or in a forked process, which shares the cores."""
    return _pool.most


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _forked() -> None:
    """In a forked process: there are no threads, and what they were doing is to be done again."""
    global _pool
    for task in _pool.running:
        task.state = _WAITING
    _pool = _Pool(0)


_pool = _Pool(min(_cores() - 1, _MOST))
atexit.register(lambda: _pool.stop())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
