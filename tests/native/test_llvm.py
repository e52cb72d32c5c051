"""What loading LLVM leaves in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab import native
from ptxlab.native._llvm import llvm, read_only_pages

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

RESIDENT = """
from pathlib import Path
{load}
print(Path("/proc/self/status").read_text().split("RssFile:")[1].split()[0])
"""
TWICE = "define i32 @twice(i32 %x) {\n %y = add i32 %x, %x\n ret i32 %y\n}\n"


def resident_mib(load: str) -> float:
    """The pages of files that are resident in a new process."""
    return int(subprocess.run([sys.executable, "-c", RESIDENT.format(load=load)], capture_output=True, text=True, check=True).stdout) / 1024


def test_pages_of_the_initialisation_are_released() -> None:
    used = "binding.get_host_cpu_name()"
    plain = resident_mib(f"from ptxlab import native; from llvmlite import binding; {used}")
    released = resident_mib(f"from ptxlab import native; from ptxlab.native._llvm import llvm; binding = llvm(); {used}")
    assert released < plain - 15


def test_what_is_released_is_as_in_the_file() -> None:
    found = read_only_pages(llvm().ffi.lib._name)
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("/libllvmlite.so")]
    places = {tuple(int(text, 16) for text in where.split("-")): flags for where, flags, *_ in maps}
    assert found
    for start, stop in found:
        (flags,) = (flags for (first, end), flags in places.items() if first <= start < stop <= end)
        assert "w" not in flags
    # Relocations have written to pages that are read-only now; what they wrote must stay.
    relocated = [first for (first, _), flags in places.items() if "w" in flags]
    assert all(stop <= min(relocated) for _, stop in found)
    assert read_only_pages("no such library") == []


def test_code_is_compiled_after_the_release() -> None:
    program = f"from ptxlab import native; print(native.compile_ir({TWICE!r}, ['twice'], opt=2).address('twice') > 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("module", ["_hashlib", "fractions", "html", "difflib"])
def test_a_launch_does_without_large_modules(module: str) -> None:
    text = ".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k() { ret; }"
    run = f'import ptxlab; ptxlab.loads("{text}").kernel().launch(grid=1, block=32, args=[]).raise_for_errors()'
    done = subprocess.run([sys.executable, "-c", f"{run}; import sys; print({module!r} in sys.modules)"], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_a_finished_module_keeps_no_instructions() -> None:
    module = native.Module()
    code, (x,) = module.define("i32 twice(i32 x)")
    code.ret(x + x)
    text = module.text()
    assert module.finish() == text
    assert "add" in text
    assert "add" not in module.text()
