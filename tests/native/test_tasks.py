"""Tasks that other threads may do: once, beside the caller or by the caller, whatever happens to threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ptxlab.native import tasks
from ptxlab.native.tasks import Task, start

PATIENCE = 60


@pytest.fixture
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many threads may do tasks; none is left when all are done."""
    pool = tasks._Pool(request.param)
    monkeypatch.setattr(tasks, "_pool", pool)
    yield request.param
    until = time.monotonic() + PATIENCE
    while pool.threads and time.monotonic() < until:
        time.sleep(0.001)
    assert (pool.threads, len(pool.queue), len(pool.running)) == (0, 0, 0)


def both(test):
    return pytest.mark.parametrize("threads", [0, 1, 3], indirect=True)(test)


@both
def test_each_is_done_once(threads: int) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number * number

    started = [start(lambda number=number: work(number)) for number in range(50)]
    assert [task.result() for task in started] == [number * number for number in range(50)]
    assert [task.result() for task in started] == [number * number for number in range(50)]
    assert sorted(done) == list(range(50))


@pytest.mark.parametrize("threads", [1], indirect=True)
def test_one_is_done_beside_the_caller(threads: int) -> None:
    meet = threading.Barrier(2)
    task = start(lambda: (meet.wait(PATIENCE), threading.current_thread())[1])
    meet.wait(PATIENCE)
    assert task.result() is not threading.current_thread()


@pytest.mark.parametrize("threads", [0], indirect=True)
def test_without_threads_nothing_is_done_before_it_is_asked_for(threads: int) -> None:
    done: list[threading.Thread] = []
    task = start(lambda: done.append(threading.current_thread()))
    assert not done
    task.result()
    assert done == [threading.current_thread()]


@both
def test_after_an_error_it_is_done_again(threads: int) -> None:
    divisors = [2, 0, 0]
    task = start(lambda: 10 // divisors.pop())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            task.result()
    assert (task.result(), divisors) == (5, [])


@both
def test_an_interrupt_leaves_the_task_to_be_done(threads: int) -> None:
    interrupts = [KeyboardInterrupt()]

    def work() -> int:
        if interrupts:
            raise interrupts.pop()
        return 5

    task = Task(work)
    with pytest.raises(KeyboardInterrupt):
        task.result()
    assert task.result() == 5


@pytest.mark.parametrize("threads", [1], indirect=True)
def test_no_thread_can_be_started(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert start(lambda: 5).result() == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("threads", [1], indirect=True)
def test_a_forked_process_does_what_a_thread_was_doing(threads: int) -> None:
    begun, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def work() -> int:
        if os.getpid() == parent:
            begun.set()
            go_on.wait(PATIENCE)
        return os.getpid()

    task, later = start(work), start(os.getpid)
    begun.wait(PATIENCE)
    pid = os.fork()
    if not pid:
        os._exit(0 if task.result() == later.result() == os.getpid() and start(lambda: 5).result() == 5 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    go_on.set()
    assert task.result() == later.result() == parent


ENDING = """
import threading, time
from ptxlab.native import tasks
tasks._pool = tasks._Pool(1)
begun = threading.Event()
def work():
    begun.set()
    time.sleep(0.2)
    print("done", flush=True)
started = [tasks.start(work) for _ in range(100)]
begun.wait()
print("ends", flush=True)
"""


def test_a_process_ends_with_the_task_that_is_being_done() -> None:
    found = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert (found.stdout.split(), found.stderr) == (["ends", "done"], "")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process cannot be bound to a core")
def test_one_core_has_no_threads() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); from ptxlab.native import tasks; print(tasks.spare_threads())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
