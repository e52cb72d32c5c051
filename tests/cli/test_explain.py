from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ptxlab.cli._main import cli
from ptxlab.descriptors import encode_tensor_map

MAP = encode_tensor_map(
    data_type=6, rank=2, address=1 << 20, dims=(512, 256), strides=(1024,), box=(64, 128), element_strides=(1, 1),
    interleave=0, swizzle=3, l2_promotion=0, oob_fill=0,
)  # fmt: skip


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["explain", *arguments])


@pytest.mark.parametrize(
    ("arguments", "status", "first"),
    [
        (["0x4000404000010000"], 0, "0x4000404000010000: shared memory descriptor of tcgen05"),
        ([str(0x4000404000010000)], 0, "0x4000404000010000: shared memory descriptor of tcgen05"),
        (["0x4000004000010040"], 0, "0x4000004000010040: matrix descriptor of wgmma"),
        (["0x4000004000010040", "--as", "smem"], 1, "0x4000004000010040: shared memory descriptor of tcgen05"),
        (["0x8400490", "--as", "idesc", "--kind", "f16"], 0, "0x8400490: instruction descriptor of tcgen05.mma.kind::f16"),
        (["0x8400490", "--as", "idesc", "--kind", "i8"], 1, "0x8400490: instruction descriptor of tcgen05.mma.kind::i8"),
        (["0x200040", "--as", "tmem"], 0, "0x200040: tensor memory address"),
        (["-1", "--as", "tmem"], 1, "0xffffffff: tensor memory address"),
        (["0b1000000000000000000000", "--as", "tmem"], 0, "0x200000: tensor memory address"),
        (["0x3028000000000", "--as", "mask"], 0, "0x3028000000000: zero-column mask descriptor"),
        ([MAP.hex()], 0, f"{MAP.hex()}: tensor map"),
    ],
)
def test_text(arguments: list[str], status: int, first: str) -> None:
    found = run(*arguments)
    assert found.exit_code == status
    assert found.output.startswith(first + "  (")


def test_json() -> None:
    found = json.loads(run("0x4000404000010000", "--json").output)
    assert found["ok"] is True
    best = found["interpretations"][0]
    assert best["what"] == "smem"
    assert best["fields"][1] == {
        "name": "leading",
        "bits": "16-29",
        "code": 1,
        "value": "16 (0x10)",
        "meaning": "Leading dimension byte offset",
    }
    assert best["layouts"]["K-major canonical layout"] == "Swizzle<3,4,3> o ((8,m),(T,2k)):((8T,SBO),(1,T))"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zzz"], "error[D731]: 'zzz' is not a value"),
        (["@missing.bin"], "error[D731]: cannot read missing.bin: No such file or directory"),
        (["0x100000000", "--as", "tmem"], "error[D731]: 0x100000000 does not fit in the 32 bits of a value read as tmem"),
    ],
)
def test_wrong_use(arguments: list[str], message: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert found.output.startswith(message)
    machine = run(*arguments, "--json")
    assert machine.exit_code == 2
    assert json.loads(machine.output)["diagnostics"][0]["code"] == "D731"


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "map.bin"
    path.write_bytes(MAP)
    assert run(f"@{path}").output == run(MAP.hex()).output


def drawn(*arguments: str) -> dict[str, list[str]]:
    """Lines of what is drawn, by the first word: the name of a row."""
    text = run(*arguments, "--draw").output.split("Fields\n", 1)[1]
    return {line.strip().partition("  ")[0]: line.split() for line in text.splitlines()}


def test_drawn_with_the_elements_of_the_kind() -> None:
    """128B swizzling: the chunk of 16 bytes c of line r lies at c ^ r."""
    bits16 = drawn("0x4000404000800000")
    assert bits16["0x0080 1:8-15"][:3] == ["0x0080", "1:8-15", "1:0-7"]
    bits32 = drawn("0x4000404000800000", "--kind", "tf32")
    assert bits32["0x0080 1:4-7"][:3] == ["0x0080", "1:4-7", "1:0-3"]
    bits8 = drawn("0x4000404000800000", "--kind", "i8")
    assert bits8["0x0080 1:16-31"][:3] == ["0x0080", "1:16-31", "1:0-15"]


def test_drawn_with_the_major_ness() -> None:
    """MN-major: a line is a step of k, and the leading dimension leads from one width of 128 bytes to the next."""
    row = drawn("0x4000404000800000", "--kind", "f8f6f4", "--major", "mn")
    assert row["m 0-15 0x0000"][2:6] == ["0x0000", "0x0090", "0x0120", "0x01b0"]
    assert row["m 16-31 0x0010"][2:4] == ["0x0010", "0x0080"]
    assert row["m 128-143 0x0800"][2] == "0x0800"
    assert row["m 0-15 0x0000"][10] == "0x0400", "eight steps of k on: the stride dimension"


@pytest.mark.parametrize(
    ("value", "title", "row"),
    [
        ("0x4200490", "Matrix D: Data path layout F: D of 64 x 128, cta_group::1", "m 16-31 lanes 32-47"),
        ("0x10400490", "Matrix D: Data path layout A: D of 256 x 256, cta_group::2", "m 128-143 CTA 1, lanes 0-15"),
        (
            "0x2100490",
            "Matrix D: Data path layout G: D of 32 x 64, cta_group::1, .ws",
            "m 16-31 lanes 16-31 lanes 48-63 lanes 80-95 lanes 112-127",
        ),
    ],
)
def test_the_data_path_of_an_instruction_is_drawn(value: str, title: str, row: str) -> None:
    lines = [" ".join(line.split()) for line in run(value, "--as", "idesc", "--kind", "f16", "--draw").output.splitlines()]
    assert title in lines
    assert row in lines


def test_an_instruction_that_is_nowhere_legal_has_no_data_path() -> None:
    """M = 48."""
    found = run("0x3400490", "--as", "idesc", "--kind", "f16", "--draw")
    assert found.exit_code == 1
    assert "Matrix D" not in found.output.split("Fields\n")[1]
