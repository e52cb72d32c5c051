"""Record what ptxas 13.5 says about instructions around the tensor core: ``python -m tests.check.record_verdicts``.

Writes ``ptxas_verdicts_around.tsv.gz``: instruction, target, version, verdict (accept, reject, crash), first message. The instructions are
those of `test_features` on every target and random ones near the declared forms; `test_verdicts` replays the table without ptxas.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .random_forms import AROUND, Generator
from .test_features import CASES, INSTRUCTIONS
from .test_verdicts import assembler, verdict

TABLE = Path(__file__).with_name("ptxas_verdicts_around.tsv.gz")
RANDOM = 3000
SEED = 6


def rows() -> list[tuple[str, str, str]]:
    generator = Generator(SEED, AROUND)
    systematic = [(instruction, target, version) for instruction in INSTRUCTIONS for target, version in CASES]
    return list(dict.fromkeys([*systematic, *(generator.instruction() for _ in range(RANDOM))]))


def main() -> None:
    ptxas = assembler()
    if ptxas is None:
        sys.exit("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    lines = ["instruction\ttarget\tversion\tverdict\tmessage"]
    with TemporaryDirectory() as folder:
        for instruction, target, version in rows():
            status, said = verdict(ptxas, Path(folder), instruction, target, version)
            message = re.sub(
                r".*?(error|fatal)\s*:\s*", "", next((line for line in said.splitlines() if re.search("error|fatal", line)), "")
            )
            outcome = "accept" if status == 0 else "crash" if status < 0 else "reject"
            lines.append("\t".join((instruction, target, version, outcome, message if status else "")))
    # No time stamp: the same verdicts give the same file.
    TABLE.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", 9, mtime=0))


if __name__ == "__main__":
    main()
