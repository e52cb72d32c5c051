"""One command for the silicon: ``python -m tests.hardware list`` and ``python -m tests.hardware record [TOPIC ...] [--into FOLDER]``.

``record`` needs an sm_90a GPU, cupy, nvcc and ptxas; it writes ``TOPIC_h200.npz`` beside the tests, which replay it without a GPU.
Topics are those of `suite`, and the programs ``record_*.py`` of this folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SOURCES = FOLDER.parents[1] / "src"
sys.path.insert(0, str(SOURCES))

from tests.hardware import suite  # noqa: E402
from tests.hardware.suite import _gpu, _record  # noqa: E402
from tests.hardware.suite._tools import tools  # noqa: E402


def programs() -> dict[str, Path]:
    """The recorders that are programs of their own, by topic."""
    return {path.stem.removeprefix("record_"): path for path in sorted(FOLDER.glob("record_*.py"))}


def record(topic: str, into: Path, newer: Path | None) -> int:
    if topic in suite.TOPICS:
        return 0 if _gpu.record(topic, suite.kernels(topic), into) else 1
    out = _record.path_of(topic, into.resolve())
    paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", f"tests.hardware.{programs()[topic].stem}", str(out)]
    if newer and (binary := newer.resolve() / f"{topic}.cubin").exists():
        command.append(str(binary))
    return subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": paths}, cwd=FOLDER.parents[1]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hardware", description="Run kernels on a GPU and record what they give.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the topics")
    recording = commands.add_parser("record", help="run topics (all by default) and write their records")
    recording.add_argument("topics", nargs="*", metavar="TOPIC")
    recording.add_argument("--into", type=Path, default=FOLDER)
    recording.add_argument("--newer", type=Path, help="folder of TOPIC.cubin: forms that the assembler of this machine does not know")
    launching = commands.add_parser("launch", help="the process that launches, for record")
    launching.add_argument("topic")
    launching.add_argument("job", type=Path)
    given = parser.parse_args()
    if given.command == "list":
        print(*suite.TOPICS, *programs(), sep="\n")
        return 0
    if given.command == "launch":
        _gpu.launch_all(suite.kernels(given.topic), given.job)
        return 0
    known = [*suite.TOPICS, *programs()]
    if unknown := set(given.topics) - set(known):
        parser.error(f"no such topic: {', '.join(sorted(unknown))}")
    tools()  # ends here where there is no GPU
    given.into.mkdir(parents=True, exist_ok=True)
    failed = [topic for topic in given.topics or known if record(topic, given.into, given.newer)]
    print(*(f"{topic} failed" for topic in failed), sep="\n", end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
