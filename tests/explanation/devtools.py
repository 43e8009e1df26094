"""A page in headless Chromium, used as a person uses it: real pointer moves and key presses, by the DevTools protocol.

The protocol runs over two pipes, so nothing listens on a port and no further library is needed.
"""

import base64
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.lab.reports.browser import FLAGS, find_browser

KEYS = {
    "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "Escape": 27,
}  # fmt: skip
CONTROL = 2
START = "import os, sys; [os.dup2(int(sys.argv[n]), n + 2) for n in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"


class Browser:
    """One browser, as a context; ``open`` gives a fresh page."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.number = 0
        self.events = []

    def __enter__(self):
        (to_read, self.to_write), (self.from_read, from_write) = os.pipe(), os.pipe()
        given = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, from_write)]
        command = [find_browser(), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={self.scratch / 'profile'}"]
        places = {name: str(self.scratch) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, given), *command],
            pass_fds=given,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | places,
            start_new_session=True,
        )
        for end in (to_read, from_write, *given):
            os.close(end)
        self.reader = os.fdopen(self.from_read, "rb", buffering=0)
        self.buffer = b""
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.to_write)
        self.reader.close()

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method, session):
        def wanted(event):
            return event.get("method") == method and event.get("sessionId") == session

        while True:
            for event in self.events:
                if wanted(event):
                    self.events.remove(event)
                    return event
            self.events.append(self._receive())

    def _receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.reader.fileno(), 2**16)
            assert part, "the browser has gone"
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def open(self, file: Path, width=1280, height=900, dark=False, media=""):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, width)
        for domain in ("Page", "Network", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", media=media, features=[theme])
        page.call("Page.navigate", url=file.as_uri())
        self.wait_for("Page.loadEventFired", session)
        return page


class Page:
    """A page that is looked at and used."""

    def __init__(self, browser, session, width) -> None:
        self.browser, self.session, self.width = browser, session, width

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def hover(self, selector):
        """Move the pointer to the middle of an element."""
        x, y = self.evaluate(
            f"""(() => {{ const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{block: "center", inline: "center"}});
            const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector):
        x, y = self.hover(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, control=False):
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
                modifiers=CONTROL if control else 0,
            )

    def tip(self):
        """The lines of the tip as {name: value}, its title under "title"; None where it is hidden."""
        return self.evaluate(
            """(() => { const tip = document.getElementById("tip"); if (tip.hidden) return null;
            const lines = [...tip.querySelectorAll("div")].map((line) => [...line.children].map((e) => e.textContent));
            return {title: tip.querySelector("b").textContent, ...Object.fromEntries(lines)}; })()"""
        )

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def focused(self):
        """(row, column) of the cell that has the focus."""
        return self.evaluate("[document.activeElement.dataset.row, document.activeElement.dataset.column]")

    def complaints(self):
        """What the console holds, and every address asked for beside the page itself."""
        self.evaluate("0")
        said, asked = [], []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                said.append(event["params"])
            if event["method"] == "Network.requestWillBeSent":
                asked.append(event["params"]["request"]["url"])
        return said, asked[1:]

    def screenshot(self, target: Path):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        target.write_bytes(base64.b64decode(picture))
