"""Headless Chromium through the WebDriver protocol of chromedriver: plain HTTP and JSON."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = "" if BROWSER and DRIVER else "no Chromium with chromedriver on this machine (Debian: chromium, chromium-driver)"


class Browser:
    def __init__(self, width: int = 1280, height: int = 1000, dark: bool = False) -> None:
        assert BROWSER is not None
        assert DRIVER is not None
        self._process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._url = ""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self._url = f"http://127.0.0.1:{found[1]}"
                break
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={width},{height}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": BROWSER, "args": arguments}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}})
        self._url += f"/session/{made['sessionId']}"

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def resize(self, width: int, height: int) -> None:
        """The size of the page, which may be smaller than the smallest window; 0 and 0 give that of the window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 0, "mobile": False}
        self._call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def move(self, x: int, y: int, click: bool = False, pointer: str = "mouse", button: int = 0) -> None:
        """Move the pointer, and press and release it; a finger (``touch``) has no place unless it is down."""
        steps: list[dict[str, Any]] = [{"type": "pointerMove", "x": x, "y": y, "duration": 0, "origin": "viewport"}]
        if click:
            steps += [{"type": "pointerDown", "button": button}, {"type": "pointerUp", "button": button}]
        self._actions({"type": "pointer", "id": pointer, "parameters": {"pointerType": pointer}, "actions": steps})

    def press(self, *keys: str) -> None:
        """Press and release keys, by the code points of WebDriver or as characters."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._actions({"type": "key", "id": "keyboard", "actions": steps})

    def _actions(self, source: dict[str, Any]) -> None:
        self._call("POST", "/actions", {"actions": [source]})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def close(self) -> None:
        self._call("DELETE", "")
        self._process.terminate()
        self._process.wait(10)
