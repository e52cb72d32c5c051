"""The kernels of record kits: the same bytes each time, taken by ptxas, executed by ptxlab without a finding."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from ptxlab import silicon
from ptxlab.interop import nvcc
from ptxlab.isa import load_all
from ptxlab.isa.catalogue import match
from ptxlab.silicon._compare import replay
from ptxlab.silicon.parts.cuda import COMPILED_FOR, body
from tests.hardware.kernels import build
from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep

EARLIER = {
    "sm_90a": (),
    "sm_100a": ("sm_90a",),
    "sm_103a": ("sm_100a",),
    "sm_110a": ("sm_100a",),
    "sm_120a": ("sm_90a",),
    "sm_121a": ("sm_90a", "sm_120a"),
}
"""Target -> targets that have some of its cases, which run there already."""
PARTS = [(target, part) for target in silicon.TARGETS for part in silicon.parts_of(target)]


@cache
def cases(target: str, part: str) -> dict[str, silicon.Case]:
    listed = [(name, case) for name, _, case in silicon.cases_of(target, [part])]
    assert len(dict(listed)) == len(listed), "two cases of one name"
    return dict(listed)


def test_every_target_has_its_parts() -> None:
    both = {"mma", "approximate", "tma", "cuda", "timing", "faults"}
    tensor = {"tcgen05", "tcgen05-layouts", "collector", "tensor-memory"}
    assert {target: set(silicon.parts_of(target)) - both for target in silicon.TARGETS} == {
        "sm_90a": {"wgmma", "wgmma-layouts"},
        "sm_100a": tensor,
        "sm_103a": tensor,
        "sm_110a": tensor,
        "sm_120a": set(),
        "sm_121a": set(),
    }


@pytest.mark.parametrize("target", one_in(4, silicon.TARGETS))
def test_a_kit_is_the_same_each_time(target: str, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        silicon.write_kit(target, tmp_path / folder)
    files = [sorted(p.relative_to(tmp_path / f) for p in (tmp_path / f).rglob("*") if p.is_file()) for f in ("one", "two")]
    assert files[0] == files[1]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files[0])
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert {Path("manifest.json"), *map(Path, manifest["files"])} == set(files[0])
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((tmp_path / "one" / name).read_bytes()).hexdigest() == digest
    for case in manifest["cases"].values():
        assert hashlib.sha256((tmp_path / "one" / case["kernel"]).read_bytes()).hexdigest() == case["kernel_hash"]


@pytest.mark.compiler
@pytest.mark.parametrize(("target", "part"), PARTS)
def test_ptxas_takes_every_kernel(target: str, part: str, tmp_path: Path) -> None:
    compiler = nvcc.find_nvcc()
    if compiler is None:
        pytest.skip("ptxas is not installed")
    texts = list(dict.fromkeys(case.text for case in cases(target, part).values()))
    single = [text for text in texts if text.count(".entry k(") == 1]
    modules = [text for text in texts if text not in single]
    if single:
        first, entry = re.split(r"(?=\.visible \.entry)", single[0])
        assert all(text.startswith(first) for text in single)
        assert entry
        modules.append(first + "\n".join(t.removeprefix(first).replace(".entry k(", f".entry k{i}(") for i, t in enumerate(single)))
    for text in modules:
        (tmp_path / "all.ptx").write_text(text)
        command = [str(Path(compiler).with_name("ptxas")), f"-arch={target}", "-O0"]
        done = subprocess.run([*command, str(tmp_path / "all.ptx"), "-o", str(tmp_path / "all.cubin")], capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[:2000]


@pytest.mark.compiler
@pytest.mark.parametrize("source", COMPILED_FOR, ids=lambda path: path.stem)
def test_nvcc_gives_the_stored_ptx(source: Path, tmp_path: Path) -> None:
    if not build.available("nvcc"):
        pytest.skip("nvcc has not the version that made the text")
    made, arch = tmp_path / "made.ptx", COMPILED_FOR[source]
    subprocess.run(["nvcc", "-std=c++17", f"-arch={arch}", "--fmad=false", "-ptx", str(source), "-o", str(made)], check=True)
    assert made.read_text() == source.with_suffix(".ptx").read_text()
    texts = [case.text for target in silicon.TARGETS for case in cases(target, "cuda").values() if source in case.sources]
    assert texts
    assert all(text.endswith(body(made.read_text())) for text in texts)


@pytest.mark.compiler
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("target", "part"), [(target, part) for target, part in PARTS if part != "faults"])
def test_ptxlab_finds_nothing(target: str, part: str, every: int) -> None:
    """In one in so many of the cases, and in the first with each set of instructions."""
    known = {name for other in EARLIER[target] if part in silicon.parts_of(other) for name in cases(other, part)}
    found, seen = [], set()
    for number, (name, case) in enumerate((name, case) for name, case in cases(target, part).items() if name not in known):
        if number % every == 0 or frozenset(case.opcodes) not in seen:
            seen.add(frozenset(case.opcodes))
            outputs, diagnostics = replay(case, "all")
            found += [f"{name}: {d}" for d in diagnostics]
            assert case.kind == "time" or all(output.any() for output in outputs), name
    assert found == []


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_faults(target: str) -> None:
    """What is wrong is reported, and what has nothing wrong runs to its end."""
    for name, case in cases(target, "faults").items():
        errors = [d for d in replay(case)[1] if d.severity == "error"]
        assert bool(errors) != bool(re.search(r"(?<!not )aligned$|everything legal|division", name)), (name, errors)


@pytest.mark.parametrize(("target", "part"), PARTS)
def test_cases_show_instructions_of_the_catalogue(target: str, part: str) -> None:
    load_all()
    opcodes = {opcode for case in cases(target, part).values() for opcode in case.opcodes}
    assert [opcode for opcode in opcodes if not match(opcode)] == []
