"""Stands between an editor and its debug adapter, and keeps what they say: ``python tee.py FILE COMMAND ...``.

Each line of the file is an object: ``from`` is ``editor`` or ``adapter``, ``message`` what has been sent, in the order in which it came
through here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import BinaryIO, TextIO

_LOCK = threading.Lock()


def pass_on(source: str, reader: BinaryIO, writer: BinaryIO, kept: TextIO) -> None:
    """Pass messages on, byte by byte as they are, until the stream ends."""
    while header := reader.readline():
        length = int(header.split(b":")[1])
        rest = reader.readline()
        body = reader.read(length)
        with _LOCK:
            kept.write(json.dumps({"from": source, "message": json.loads(body)}) + "\n")
            kept.flush()
            writer.write(header + rest + body)
            writer.flush()
    writer.close()


def main(file: str, *command: str) -> int:
    """Run the adapter; its exit status."""
    with open(file, "w", encoding="utf-8") as kept, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as adapter:
        assert adapter.stdin is not None
        assert adapter.stdout is not None
        streams = sys.stdin.buffer, adapter.stdin
        threading.Thread(target=pass_on, args=("editor", *streams, kept), daemon=True).start()
        pass_on("adapter", adapter.stdout, sys.stdout.buffer, kept)
        return adapter.wait()


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
