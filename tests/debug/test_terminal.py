"""The terminal interface: panes by Textual's pilot, and the screen in tmux as text."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("textual")

from textual.events import Key
from textual.widgets import Input, Static

from ptxlab.debug import Session
from ptxlab.debug.terminal.app import DebuggerApp

from .debug_kernels import LOOP, copies, prepared

LAUNCH = 'ptx = "k.ptx"\nblock = 64\n[[args]]\nname = "sums"\narray = {shape = [64], dtype = "uint32"}\n'


def shown(app: DebuggerApp, name: str) -> str:
    """The text of a pane."""
    return str(app.query_one(f"#{name}", Static).render())


def test_panes_and_keys() -> None:
    async def use(session: Session) -> None:
        app = DebuggerApp(session)
        async with app.run_test(size=(140, 45)) as pilot:
            await pilot.pause()
            assert ">   6   mov.u32 %r1, %tid.x;" in shown(app, "ptx")
            assert shown(app, "registers") == "no register has a value"
            for key, line, registers in (("f7", 7, " %r1      0"), ("f7", 8, " %r1      0\n %rd1"), ("f8", 7, " %r1      0")):
                await pilot.press(key)
                await pilot.pause()
                assert f">   {line} " in shown(app, "ptx")
                assert shown(app, "registers").startswith(registers)
            app.query_one(Input).value = "break line 18"
            await pilot.press("enter", "f5")
            await pilot.pause()
            assert "breakpoint 1, point" in shown(app, "answer")
            assert ">%r4      10" in shown(app, "registers")
            assert shown(app, "timeline").endswith("CTA (0, 0, 0) warp 0 lane 0")
            await pilot.press("f6")
            await pilot.pause()
            assert "start, point 0" in shown(app, "answer")
            app.query_one(Input).value = "frobnicate"
            await pilot.press("enter")
            await pilot.pause()
            assert "there is no command 'frobnicate'" in shown(app, "answer")

    with Session(prepared(LOOP, 64)) as session:
        asyncio.run(use(session))


def test_what_is_typed_fast_is_executed_in_order() -> None:
    """All keys lie in the queue before the first command is executed."""

    async def use(session: Session) -> None:
        app = DebuggerApp(session)
        async with app.run_test(size=(140, 45)) as pilot:
            await pilot.pause()
            done: list[str] = []
            execute = app._console.execute
            app._console.execute = lambda text: (done.append(text), execute(text))[1]  # type: ignore[method-assign]
            for key in (*"step 2", "enter", "f7", *"any", "enter", "f8"):
                app.post_message(Key({" ": "space"}.get(key, key), key if len(key) == 1 else None))
            await pilot.pause()
            await pilot.pause()
            assert done == ["step 2", "step", "any", "back"]
            assert app.query_one(Input).value == ""

    with Session(prepared(LOOP, 64)) as session:
        asyncio.run(use(session))


def test_memory_barriers_and_operations() -> None:
    async def use(session: Session) -> None:
        app = DebuggerApp(session)
        async with app.run_test(size=(140, 60)) as pilot:
            for command in ("async", "async", "async", "show shared 0x400"):
                app.query_one(Input).value = command
                await pilot.press("enter")
            await pilot.pause()
            assert "mbarrier 0x480: phase 0 pending 0 bytes 256 waiting w0\n" in shown(app, "barriers")
            assert "operation 1: cp.async.bulk" in shown(app, "barriers")
            assert shown(app, "memory").startswith("0x400: ffffffff ffffffff ffffffff ffffffff\n0x410: ")
            app.query_one(Input).value = "any"
            await pilot.press("enter")
            await pilot.pause()
            assert shown(app, "memory").startswith("0x400: 00000001 00000001 00000001 00000001\n")

    with Session(copies(policy="lazy")) as session:
        asyncio.run(use(session))


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
def test_the_screen_in_tmux(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(LOOP)
    (tmp_path / "k.toml").write_text(LAUNCH)
    tmux = ["tmux", "-S", str(tmp_path / "socket")]
    program = "from ptxlab.cli import main; main(['debug', '--tui', 'k.toml'])"
    start = [*tmux, "new-session", "-d", "-c", str(tmp_path), sys.executable, "-c", program]
    subprocess.run(start, check=True)
    try:

        def screen(wanted: str) -> str:
            """The screen as text, as soon as it shows something."""
            end = time.monotonic() + 60
            while time.monotonic() < end:
                text = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
                if wanted in text:
                    return text
                time.sleep(0.2)
            raise AssertionError(text)

        screen("point 0")
        subprocess.run([*tmux, "send-keys", "break line 18", "Enter"], check=True)
        screen("│breakpoint 1")
        subprocess.run([*tmux, "send-keys", "F5"], check=True)
        text = screen("breakpoint 1, point 27")
        rows = [line.rstrip() for line in text.splitlines()]
        for expected in (
            ">  18   st.global.b32 [%rd3], %r4;",
            "no source",
            "point 27, CTA (0, 0, 0) warp 0 lane 0",
            "f8 step back",
        ):
            assert any(expected in row for row in rows), text
        subprocess.run([*tmux, "send-keys", "F8"], check=True)
        assert ">  17   add.s32 %r4, %r3, %r1;" in screen("step, point 26")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
