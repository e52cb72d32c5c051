"""What a device takes of PTX texts, fat binaries and cubins."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.cuda.images import ImageError, ImageResult, PtxStore, best_text, jit_log, open_image, open_image_at
from ptxlab.isa.targets import runs_on
from tests.cuda.images.image_helpers import Wrapper, compile_image

NO_STORE = PtxStore(disk=False)


def text(target: str, name: str = "k") -> str:
    return f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n"


@pytest.mark.parametrize(
    ("targets", "device", "taken"),
    [
        (["sm_80", "sm_90", "sm_100"], "sm_90a", "sm_90"),
        (["sm_80", "sm_90", "sm_90a"], "sm_90a", "sm_90a"),
        (["sm_80", "sm_90a", "sm_100a"], "sm_100a", "sm_100a"),
        (["sm_80", "sm_90a"], "sm_100a", "sm_80"),
        (["sm_100a", "sm_100f", "sm_90"], "sm_103a", "sm_100f"),
        (["sm_100a", "sm_90"], "sm_103a", "sm_90"),
        (["sm_100f", "sm_100a"], "sm_100a", "sm_100f"),
        (["sm_100f"], "sm_110a", None),
        (["sm_120", "sm_100a"], "sm_90a", None),
        ([], "sm_90a", None),
    ],
)
def test_the_text_that_a_device_takes(targets: list[str], device: str, taken: str | None) -> None:
    assert best_text([text(target) for target in targets], device) == (text(taken) if taken else None)


def test_code_runs_on_later_devices_its_family_or_its_architecture() -> None:
    assert {t for t in ("sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a", "sm_103", "sm_101f") if runs_on(t, "sm_103a")} == {
        "sm_90",
        "sm_100",
        "sm_100f",
        "sm_103",
    }
    assert not runs_on("", "sm_90a")


def test_a_text_by_its_address() -> None:
    raw = ctypes.create_string_buffer(text("sm_90a", "first").encode())
    image = open_image_at(ctypes.addressof(raw), "sm_90a", NO_STORE)
    assert (image.container, image.kernel_names, image.cubin, image.refusal("first")) == ("PTX", ("first",), None, None)


@pytest.mark.parametrize(
    ("raw", "device", "result", "code", "message"),
    [
        (b"", "sm_90a", ImageResult.INVALID_IMAGE, "S104", "the module has no '.version' directive"),
        (b"hello", "sm_90a", ImageResult.INVALID_IMAGE, "S101", "hello"),
        (text("sm_100a").encode(), "sm_90a", ImageResult.INVALID_PTX, "I403", "the PTX is for sm_100a, and the device is sm_90a"),
        (b".version 99.0\n.target sm_90\n.address_size 64\n", "sm_90a", ImageResult.UNSUPPORTED_PTX_VERSION, "I402", "PTX ISA 99.0"),
        (b"\x7fELF", "sm_90a", ImageResult.INVALID_IMAGE, "S202", "the image is damaged: the ELF header is cut off"),
        (b"\x7fELF\2\1\1" + bytes(57), "sm_90a", ImageResult.INVALID_IMAGE, "S202", "for machine 0, not for a GPU"),
        (b"\x50\xed\x55\xba\1\0\x10\0\xff" + bytes(7), "sm_90a", ImageResult.INVALID_IMAGE, "S202", "the fat binary is cut off"),
        (b"\x50\xed\x55\xba\1\0\x10\0" + bytes(8), "sm_90a", ImageResult.NO_BINARY_FOR_GPU, "I403", "holds code for nothing"),
    ],
)
def test_refused(raw: bytes, device: str, result: ImageResult, code: str, message: str) -> None:
    with pytest.raises(ImageError) as refused:
        open_image(raw, device, NO_STORE)
    assert (refused.value.result, refused.value.diagnostic.code) == (result, code)
    assert message in str(refused.value)


def test_no_memory_at_the_address() -> None:
    for address in (0, 8, 1 << 62, (1 << 64) - 8):
        with pytest.raises(ImageError, match="no memory at") as refused:
            open_image_at(address, "sm_90a", NO_STORE)
        assert refused.value.result == ImageResult.INVALID_VALUE


def test_memory_that_ends_inside_an_image() -> None:
    """The reader gives what is there; the end of memory is no end of a text."""
    raw = text("sm_90a").encode()
    with pytest.raises(ImageError, match="no zero byte at its end"):
        open_image_at(4096, "sm_90a", NO_STORE, lambda address, size: raw[address - 4096 : address - 4096 + size])


def test_the_log_holds_what_fits() -> None:
    with pytest.raises(ImageError) as refused:
        open_image(b".version 9.0\n.target sm_90a\nnonsense\n", "sm_90a", NO_STORE, "input")
    log = jit_log(refused.value.diagnostics, 4096)
    assert b"S1" in log
    assert b"input:3" in log
    assert log.endswith(b"\0")
    assert [len(jit_log(refused.value.diagnostics, size)) for size in (0, 1, 10)] == [0, 1, 10]


@pytest.mark.compiler
@pytest.mark.parametrize("mode", ["none", "size", "speed", "balance", "default"])
def test_fat_binaries_of_every_compression(tmp_path: Path, mode: str) -> None:
    both = "arch=compute_90a,code=[sm_90a,compute_90a]"
    raw = compile_image(
        tmp_path, "x.fatbin", "-fatbin", f"--compress-mode={mode}", "-gencode", both, "-gencode", "arch=compute_80,code=compute_80"
    )
    hopper, blackwell = open_image(raw, "sm_90a", NO_STORE), open_image(raw, "sm_100a", NO_STORE)
    assert hopper.module is not None
    assert blackwell.module is not None
    assert (hopper.module.target, blackwell.module.target) == ("sm_90a", "sm_80")
    assert set(hopper.kernel_names) == {"sum", "spill", "empty"}
    assert hopper.cubin is not None
    assert hopper.cubin.target == "sm_90a"
    assert blackwell.cubin is None
    wrapper = Wrapper(raw)
    assert open_image_at(wrapper.address, "sm_90a", NO_STORE).kernel_names == hopper.kernel_names
    for cut in range(0, len(raw) - 8, 997):
        with pytest.raises(ImageError):
            open_image(raw[:cut], "sm_90a", NO_STORE)


@pytest.mark.compiler
def test_the_list_of_a_wrapper(tmp_path: Path) -> None:
    raws = [compile_image(tmp_path, "x.fatbin", "-fatbin", "-gencode", f"arch=compute_{a},code=compute_{a}") for a in ("80", "90a")]
    for version, target in ((1, "sm_80"), (2, "sm_90a")):
        wrapper = Wrapper(*raws, version=version)
        module = open_image_at(wrapper.address, "sm_90a", NO_STORE).module
        assert module is not None
        assert module.target == target


@pytest.mark.compiler
def test_a_cubin_without_ptx_opens_and_its_launch_is_refused(tmp_path: Path) -> None:
    raw = compile_image(tmp_path, "x.cubin", "-cubin", "-arch=sm_90a")
    buffer = ctypes.create_string_buffer(raw, len(raw))
    image = open_image_at(ctypes.addressof(buffer), "sm_90a", NO_STORE)
    assert (image.container, image.module, set(image.kernel_names)) == ("cubin", None, {"sum", "spill", "empty"})
    refusal = image.refusal("sum")
    assert refusal is not None
    assert (refusal.code, refusal.message) == ("I401", "sum is machine code for sm_90a without PTX, and ptxlab executes PTX")
    fat = compile_image(tmp_path, "x.fatbin", "-fatbin", "-gencode", "arch=compute_90a,code=sm_90a")
    refusal = open_image(fat, "sm_90a", NO_STORE).refusal("sum")
    assert refusal is not None
    assert refusal.fix == "compile with -gencode arch=compute_90a,code=[sm_90a,compute_90a], which keeps the PTX in the program"
    with pytest.raises(ImageError, match="code for sm_90a, and the device is sm_100a") as refused:
        open_image(raw, "sm_100a", NO_STORE)
    assert refused.value.result == ImageResult.NO_BINARY_FOR_GPU


@pytest.mark.compiler
def test_the_store_gives_the_ptx_of_a_cubin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PTXLAB_CACHE", raising=False)
    raw = compile_image(tmp_path, "x.cubin", "-cubin", "-arch=sm_90a")
    fat = compile_image(tmp_path, "x.fatbin", "-fatbin", "-gencode", "arch=compute_90a,code=sm_90a", "--compress-mode=size")
    PtxStore().add(raw, text("sm_90a", "sum"))
    for image in (raw, raw + bytes(7), fat):
        opened = open_image(image, "sm_90a", PtxStore())
        assert opened.module is not None
        assert opened.kernel_names == ("sum",)
        assert opened.refusal("sum") is None
    assert open_image(raw, "sm_90a", NO_STORE).module is None
    with pytest.raises(ValueError, match="no ELF file"):
        PtxStore(disk=False).add(b"x" * 64, "")


@pytest.mark.compiler
def test_a_cubin_with_lines_keeps_its_ptx(tmp_path: Path) -> None:
    image = open_image(compile_image(tmp_path, "x.cubin", "-cubin", "-lineinfo", "-arch=sm_90a"), "sm_90a", NO_STORE)
    assert image.module is not None
    assert set(image.kernel_names) == {"sum", "spill", "empty"}


def _opens_or_refuses(raw: bytes) -> None:
    """Any bytes give an image or an `ImageError` with diagnostics, never another exception."""
    buffer = ctypes.create_string_buffer(raw + b"\0")
    found: list[object] = []
    for opened in (partial(open_image, raw), partial(open_image_at, ctypes.addressof(buffer))):
        try:
            found.append(opened("sm_90a", NO_STORE))
        except ImageError as error:
            found.append(error.diagnostics)
    assert all(found)


@settings(deadline=None)
@given(
    st.sampled_from([b"", b"\x7fELF\2\1\1", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46", b".version 9.0\n.target sm_90\n"]),
    st.binary(max_size=200),
)
def test_any_bytes(start: bytes, rest: bytes) -> None:
    _opens_or_refuses(start + rest)


@pytest.mark.compiler
def test_images_with_broken_bytes(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("images")
    both = "arch=compute_90a,code=[sm_90a,compute_90a]"
    images = [
        compile_image(folder, "x.cubin", "-cubin", "-arch=sm_90a"),
        *(compile_image(folder, "x.fatbin", "-fatbin", f"--compress-mode={mode}", "-gencode", both) for mode in ("size", "speed")),
    ]

    @given(
        st.sampled_from(images),
        st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
        st.booleans(),
    )
    def broken(raw: bytes, changes: list[tuple[float, int]], near_the_start: bool) -> None:
        damaged = bytearray(raw)
        for place, value in changes:
            damaged[int(place * (200 if near_the_start else len(raw)))] = value
        _opens_or_refuses(bytes(damaged))

    broken()
