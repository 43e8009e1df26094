"""A page in headless Chromium: what it shows, measured inside the browser, at a given width."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = """--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --disable-sync
--disable-component-update --disable-quic --disable-dev-shm-usage --hide-scrollbars""".split()

# The page stands in a frame of the wanted width, since a browser's window cannot be made as narrow as a phone.
HOST = """<!doctype html><meta charset="utf-8">
<style>body {{ margin: 0 }} iframe {{ border: 0; display: block }}</style>
<iframe width="{width}" height="{height}" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const {{contentDocument: page, contentWindow: view}} = document.querySelector("iframe");
  const root = page.documentElement;
  const box = (node) => (({{x, y, width, height}}) => ({{x, y, width, height}}))(node.getBoundingClientRect());
  const all = (selector) => [...page.querySelectorAll(selector)];
  const seen = {{
    title: page.title,
    text: page.body.innerText,
    background: getComputedStyle(page.body).backgroundColor,
    overflow: root.scrollWidth - root.clientWidth,
    height: root.scrollHeight,
    scripts: all("script").length,
    images: all("img").map((image) => ({{
      ...box(image), drawn: image.complete && image.naturalWidth > 0, source: image.currentSrc,
    }})),
    tables: all("table").map((table) => ({{...box(table), text: table.innerText}})),
    outside: view.performance.getEntriesByType("resource").map((entry) => entry.name)
      .filter((address) => !address.startsWith("data:")),
  }};
  const report = document.createElement("pre");
  report.id = "seen";
  report.textContent = JSON.stringify(seen);
  document.body.append(report);
}});
</script>"""


def find_browser():
    """The path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def look(page: Path, scratch: Path, width: int, dark: bool = False):
    """What the browser shows of a page at this width."""
    host = _write_host(page, scratch, width, height=900)
    shown = _run(scratch, dark, "--virtual-time-budget=10000", "--dump-dom", host.as_uri())
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', shown, re.S).group(1)))


def screenshot(page: Path, scratch: Path, target: Path, width: int, dark: bool = False):
    """The whole page at this width as a PNG."""
    height = look(page, scratch, width, dark)["height"]
    host = _write_host(page, scratch, width, height)
    size = f"--window-size={max(width, 500)},{height}"
    _run(scratch, dark, size, f"--screenshot={target}", host.as_uri())


def _write_host(page, scratch, width, height):
    host = scratch / "host.html"
    text = html.escape(page.read_text(encoding="utf-8"))
    host.write_text(HOST.format(width=width, height=height, page=text), encoding="utf-8")
    return host


def _run(scratch, dark, *arguments):
    theme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [find_browser(), *FLAGS, theme, f"--user-data-dir={scratch / 'profile'}", *arguments]
    environment = os.environ | {"HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch), "XDG_CACHE_HOME": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
