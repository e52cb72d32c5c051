"""Reading a file of results. Whatever the file holds, what is wrong with it becomes a diagnostic."""

from __future__ import annotations

import hashlib
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.silicon._case import TARGETS, Case
from ptxlab.silicon._kit import KIT, cases_of, parts_of

__all__ = ["Outcome", "RecordError", "Results", "read_results"]

FORMAT = 1
_LARGEST = {"results.json": 1 << 24, "outputs.bin": 1 << 28}
"""Members of the file, and the most bytes that each may have."""
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError, KeyError, IndexError),
)
"""What Python's reader of zip files raises for a file that is damaged, encrypted, or compressed in a way that it does not know."""


_OTHER_VERSION = "use the version of ptxlab that wrote the kit: its manifest.json names it"


class RecordError(PtxlabError):
    """A file of results that cannot be used."""


@dataclass(frozen=True)
class Outcome:
    """What a GPU did with a case: ``state`` is "ok", "hang", what the driver said, or why it was not launched."""

    part: str
    case: Case
    state: str
    outputs: tuple[bytes, ...]


@dataclass(frozen=True)
class Results:
    """A file of results that fits the kit of its target."""

    target: str
    about: Mapping[str, Any]
    outcomes: Mapping[str, Outcome]
    raw: bytes

    @property
    def gpu(self) -> str:
        return str(self.about["gpu"])


def _damaged(message: str) -> RecordError:
    return RecordError(diagnose("K101", message, fix="run record.py again, and copy the file that it writes as it is"))


def _foreign(message: str, fix: str) -> RecordError:
    return RecordError(diagnose("K102", message, fix=fix))


def read_results(path: Path) -> Results:
    """Read and check a file of results.

    Raises
    ------
    RecordError
        K101 if the file is damaged or no file of results, K102 if it is of another kit
    """
    try:
        if path.stat().st_size > sum(_LARGEST.values()):
            raise _damaged(f"{path} is larger than any file of results")
        raw = path.read_bytes()
    except OSError as error:
        raise _damaged(f"{path} cannot be read: {error.strerror}") from None
    members = _members(path)
    record = _json(members["results.json"])
    outputs = members["outputs.bin"]
    if _field(record, "format", int) != FORMAT:
        raise _foreign(f"the file has format {record['format']}; this version of ptxlab reads format {FORMAT}", _OTHER_VERSION)
    target = _field(record, "target", str)
    if target not in TARGETS:
        raise _foreign(f"there is no kit for the target {target!r}", f"the targets are {', '.join(TARGETS)}")
    if _field(record, "kit", int) != KIT:
        raise _foreign(f"the results are of kit {record['kit']}; this version of ptxlab has kit {KIT}", _OTHER_VERSION)
    if _field(record, "outputs_hash", str) != hashlib.sha256(outputs).hexdigest():
        raise _damaged("the outputs do not have the hash that the file says")
    about = _field(record, "about", dict)
    for name in ("gpu", "driver"):
        about[name] = _printable(about.get(name, "unknown"))
    have, want = [about.get("major"), about.get("minor")], list(TARGETS[target].capability)
    if have != want:
        message = f"the kernels are for compute capability {want[0]}.{want[1]}, the GPU has {have!r:.40}"
        raise _foreign(message, "write a kit for the target of the GPU: ptxlab record-kit --target TARGET")
    return Results(target, about, _outcomes(target, _field(record, "cases", dict), outputs), raw)


def _printable(text: Any) -> str:
    """A text of the file as a report may show it: one line, of moderate length."""
    return "".join(c for c in " ".join(str(text).split()) if c.isprintable())[:500]


def _members(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sorted(archive.namelist()) != sorted(_LARGEST):
                raise _damaged(f"{path} does not hold {' and '.join(_LARGEST)}, and nothing else")
            found = {}
            for name, largest in _LARGEST.items():
                with archive.open(name) as member:
                    found[name] = member.read(largest + 1)
                if len(found[name]) > largest:
                    raise _damaged(f"{name} has more than {largest} bytes")
            return found
    except _BROKEN as error:
        raise _damaged(f"{path} is no zip file, or a damaged one: {error}") from None


def _json(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"results.json is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _damaged("results.json is no object")
    return found


def _field(record: Any, name: str, kind: type) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _damaged(f"results.json has no {name}, or one of the wrong type")
    return value


def _outcomes(target: str, cases: Mapping[str, Any], outputs: bytes) -> dict[str, Outcome]:
    """What the file says about each case, in the order of the kit."""
    parts = [part for part in parts_of(target) if any(str(name).startswith(f"{part}: ") for name in cases)]
    known = {name: (part, case) for name, part, case in cases_of(target, parts)}
    if not cases:
        raise _damaged("the file has no results")
    if unknown := [name for name in cases if name not in known]:
        raise _foreign(f"the kit for {target} has no case {unknown[0][:200]!r} ({len(unknown)} such cases)", _OTHER_VERSION)
    found = {}
    for name, (part, case) in known.items():
        if name not in cases:  # of a kit that had fewer
            continue
        entry = cases[name]
        for what in ("kernel_hash", "inputs_hash"):
            if _field(entry, what, str) != getattr(case, what):
                raise _foreign(f"{name}: the {what.partition('_')[0]} of this version of ptxlab is another one", _OTHER_VERSION)
        state, places = _field(entry, "state", str), _field(entry, "outputs", list)
        sizes = [array.data.nbytes for array in case.recorded] if state == "ok" else []
        if len(places) != len(sizes):
            raise _damaged(f"{name}: there are {len(places)} outputs, not {len(sizes)}")
        data = []
        for place, size in zip(places, sizes, strict=True):
            at = place[0] if isinstance(place, list) and len(place) == 2 and place[1] == size else None
            if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= len(outputs) - size:
                raise _damaged(f"{name}: an output of {size} bytes has the place {str(place)[:80]}")
            data.append(outputs[at : at + size])
        found[name] = Outcome(part, case, _printable(state), tuple(data))
    return found
