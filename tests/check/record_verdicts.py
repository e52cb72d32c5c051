"""Record what ptxas 13.5 says about instructions around the tensor core: ``python -m tests.check.record_verdicts``.

Writes two tables: instruction, target, version, verdict (accept, reject, crash), first message. ``ptxas_verdicts_around.tsv.gz`` has the
instructions of `test_features` on every target and random ones near the declared forms, ``ptxas_verdicts_near.tsv.gz`` those of
`near_forms`; `test_verdicts` replays both without ptxas.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from . import near_forms
from .random_forms import AROUND, Generator
from .test_features import CASES, INSTRUCTIONS
from .test_verdicts import assembler, verdict

FOLDER = Path(__file__).parent
RANDOM = 3000
SEED = 6


def around() -> list[near_forms.Row]:
    generator = Generator(SEED, AROUND)
    systematic = [(instruction, target, version) for instruction in INSTRUCTIONS for target, version in CASES]
    return list(dict.fromkeys([*systematic, *(generator.instruction() for _ in range(RANDOM))]))


def record(table: Path, rows: list[near_forms.Row], ptxas: str) -> None:
    lines = ["instruction\ttarget\tversion\tverdict\tmessage"]
    with TemporaryDirectory() as folder:
        for instruction, target, version in rows:
            status, said = verdict(ptxas, Path(folder), instruction, target, version)
            message = re.sub(
                r".*?(error|fatal)\s*:\s*", "", next((line for line in said.splitlines() if re.search("error|fatal", line)), "")
            )
            outcome = "accept" if status == 0 else "crash" if status < 0 else "reject"
            lines.append("\t".join((instruction, target, version, outcome, message if status else "")))
    # No time stamp: the same verdicts give the same file.
    table.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", 9, mtime=0))


def main() -> None:
    ptxas = assembler()
    if ptxas is None:
        sys.exit("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    record(FOLDER / "ptxas_verdicts_around.tsv.gz", around(), ptxas)
    record(FOLDER / "ptxas_verdicts_near.tsv.gz", near_forms.rows(), ptxas)


if __name__ == "__main__":
    main()
