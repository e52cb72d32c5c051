"""Record a session of Visual Studio Code: ``python -m tests.debug.dap.recording.record CODE_SERVER``.

``CODE_SERVER`` is the folder of the npm package ``code-server``, which holds the workbench of Visual Studio Code and its server. A headless
Chromium shows the workbench. The extension of ``editors/vscode`` begins ``ptxlab debug --dap``, behind ``tee.py``, which keeps what the two
say. The extension of ``driver`` executes commands of the workbench.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.view.webdriver_helpers import Browser

HERE = Path(__file__).parent
RECORDING = HERE / "session.jsonl"
EXTENSION = HERE.parents[3] / "editors" / "vscode"
FOLDER, SESSION = "{folder}", "{session}"
FILES = ("sum.cu", "sum.ptx", "launch.toml")
LAUNCH = {
    "type": "ptxlab",
    "request": "launch",
    "name": "Debug a launch",
    "program": "${workspaceFolder}/launch.toml",
    "stopOnEntry": True,
    "stopAtEnd": True,
}
SECONDS = 240


def prepare(folder: Path) -> None:
    """Write the files of the session to a folder."""
    for name in FILES:
        (folder / name).write_text((HERE / name).read_text().replace(FOLDER, str(folder)))


def packaged(source: Path, folder: Path, vsce: Path | None = None) -> Path:
    """The package of an extension."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("node_modules"))
    if vsce is None:
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    command = vsce or folder / "node_modules" / ".bin" / "vsce"
    subprocess.run([command, "package", "--skip-license", "--allow-missing-repository"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (found,) = folder.glob("*.vsix")
    return found


def break_on_change(browser: Browser, name: str) -> None:
    """Set a data breakpoint with the menu of a variable."""
    rows = "const rows = document.querySelectorAll('.debug-variables .monaco-list-row');"
    menu = "const rows = document.querySelectorAll('.monaco-menu-container .action-item');"
    for where, text, button in ((rows, name, 2), (menu, "Break on Value Change", 0)):
        found = f"{where} const row = [...rows].find((each) => each.textContent.trim().startsWith(arguments[0]));"
        place = "const {x, y, height} = row.getBoundingClientRect(); return [Math.round(x + 40), Math.round(y + height / 2)];"
        browser.move(*browser.run(found + place, text), click=True, button=button)
        time.sleep(2)


def browse(url: str, work: Path, shown: Path | None) -> None:
    """Show the workbench until the driver has ended."""
    browser = Browser(1600, 1200)
    try:
        browser.open(url)
        for _ in range(SECONDS):
            time.sleep(1)
            if shown is not None:
                browser.screenshot(shown)
            if (work / "pointer").exists():
                break_on_change(browser, "%r5")
                (work / "pointer").unlink()
            if (work / "result.json").is_file():
                break
    finally:
        browser.close()


def recorded(code_server: Path, folder: Path, shown: Path | None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What has been said, and what the driver has written."""
    work, data, extensions = folder / "work", folder / "data", folder / "extensions"
    for each in (work / ".vscode", data / "User"):
        each.mkdir(parents=True)
    prepare(work)
    (work / ".vscode" / "launch.json").write_text(json.dumps({"version": "0.2.0", "configurations": [LAUNCH]}))
    adapter = [sys.executable, "-c", "from ptxlab.cli import main; main(['debug', '--dap'])"]
    server = [sys.executable, "-c", "from ptxlab.cli import main; main(['lsp'])"]
    settings = {
        "ptxlab.debugCommand": [sys.executable, str(HERE / "tee.py"), str(folder / "said.jsonl"), *adapter],
        "ptxlab.command": server,
        "security.workspace.trust.enabled": False,
        "debug.allowBreakpointsEverywhere": True,
        "workbench.startupEditor": "none",
    }
    (data / "User" / "settings.json").write_text(json.dumps(settings))
    own = packaged(EXTENSION, folder / "ptxlab")
    driver = packaged(HERE / "driver", folder / "driver", folder / "ptxlab" / "node_modules" / ".bin" / "vsce")
    places = ["--user-data-dir", str(data), "--extensions-dir", str(extensions)]
    command = ["node", str(code_server / "out" / "node" / "entry.js"), *places]
    for package in (own, driver):
        subprocess.run([*command, "--install-extension", str(package)], check=True, stdout=subprocess.DEVNULL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    offline = ["--auth", "none", "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"]
    with subprocess.Popen([*command, *offline, "--bind-addr", f"127.0.0.1:{port}", str(work)], stdout=subprocess.DEVNULL) as process:
        try:
            time.sleep(3)
            browse(f"http://127.0.0.1:{port}/?folder={work}", work, shown)
        finally:
            process.terminate()
    result = work / "result.json"
    said = [json.loads(line) for line in (folder / "said.jsonl").read_text().replace(str(work), FOLDER).splitlines()]
    return said, json.loads(result.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.debug.dap.recording.record", description=__doc__)
    parser.add_argument("code_server", type=Path)
    parser.add_argument("--show", type=Path, help="a picture of the workbench, made anew each second")
    given = parser.parse_args()
    manifest = json.loads((given.code_server / "package.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        said, result = recorded(given.code_server.resolve(), Path(folder).resolve(), given.show)
    if "error" in result:
        raise SystemExit(result["error"])
    client = {"client": "Visual Studio Code", "version": result["version"], "code-server": manifest["version"]}
    lines = [json.dumps(client), *map(json.dumps, said)]
    session = r'"__sessionId": "[^"]*"'
    RECORDING.write_text(re.sub(session, f'"__sessionId": "{SESSION}"', "\n".join(lines)) + "\n")
    print(f"{len(said)} messages")


if __name__ == "__main__":
    main()
