#!/usr/bin/env python3
"""Opens a page that tpplan wrote in a real headless Chromium and checks what a reader relies on.

check_page.py --chromium PROGRAM --page FILE.html [--charts N] [--screenshots FOLDER] [-- COMMAND...]

COMMAND, when given, writes the page first. Checked: no console error, no request but for the page itself, charts with
title and description whose texts keep inside the drawing, tables that sort by mouse and keyboard, the CSV button, the
skip link, captions and headings, contrast in light and dark, no sideways scrolling on a narrow screen, everything there
without scripts, printing to PDF. Needs Python's standard library alone: Chromium is driven over a pipe
(--remote-debugging-pipe), one JSON message after another, each ended by a zero byte.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 240


class Browser:
    """A Chromium with a profile of its own and one page, driven over a pipe."""

    def __init__(self, program, profile):
        read_commands, self._write = os.pipe()
        self._read, write_answers = os.pipe()
        arguments = [program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run",
                     "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                     "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb", "about:blank"]
        if os.geteuid() == 0:
            arguments.insert(1, "--no-sandbox")

        def connect():
            # Chromium reads commands from descriptor 3 and answers on 4; neither may be overwritten before it is moved.
            source, sink = os.dup2(read_commands, 30), os.dup2(write_answers, 31)
            os.dup2(source, 3)
            os.dup2(sink, 4)

        self._process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=connect)
        os.close(read_commands)
        os.close(write_answers)
        self._buffer = b""
        self._count = 0
        self._session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(domain + ".enable")

    def close(self):
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(timeout=10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _message(self, deadline):
        import select
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RuntimeError("the browser does not answer")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data):]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def wait_for(self, method):
        deadline = time.monotonic() + TIMEOUT_S
        while not any(event["method"] == method for event in self.events):
            event = self._message(deadline)
            if "method" in event:
                self.events.append(event)

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def run(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def press(self, key, code):
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))


PROBLEMS_OF_CHARTS = r"""(() => {
  const problems = [];
  for (const chart of document.querySelectorAll('svg.chart')) {
    const name = chart.querySelector('title')?.textContent || '';
    const box = chart.getBoundingClientRect();
    if (!name) problems.push('a chart without a title');
    if ((chart.querySelector('desc')?.textContent || '').length < 20) problems.push(name + ': no description');
    if (chart.getAttribute('role') !== 'img') problems.push(name + ': no role');
    if (box.width < 200 || box.height < 60) problems.push(name + ': drawn ' + box.width + ' x ' + box.height);
    if (chart.querySelectorAll('path.mark, rect.fill, rect.lane').length === 0) problems.push(name + ': nothing drawn');
    for (const text of chart.querySelectorAll('text')) {
      const inner = text.getBoundingClientRect();
      if (inner.left < box.left - 1 || inner.right > box.right + 1 || inner.top < box.top - 1 ||
          inner.bottom > box.bottom + 1) {
        problems.push(name + ': "' + text.textContent + '" leaves the drawing');
      }
    }
    if (/NaN|undefined|Infinity|\binf\b/.test(chart.outerHTML)) problems.push(name + ': not a number');
  }
  return problems;
})()"""

PROBLEMS_OF_STRUCTURE = r"""(() => {
  const problems = [];
  const ids = Array.from(document.querySelectorAll('[id]'), (element) => element.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push('two elements have the id ' + id);
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    if (!document.getElementById(decodeURIComponent(link.hash.slice(1)))) problems.push('a link to nothing: ' + link.hash);
  }
  for (const named of document.querySelectorAll('[aria-labelledby], [aria-describedby]')) {
    for (const id of ((named.getAttribute('aria-labelledby') || '') + ' ' +
                      (named.getAttribute('aria-describedby') || '')).split(/\s+/)) {
      if (id && !document.getElementById(id)) problems.push('a name that is not there: ' + id);
    }
  }
  for (const table of document.querySelectorAll('table')) {
    if (!table.caption?.textContent) problems.push('a table without a caption');
    if (table.querySelector('thead th:not([scope])')) problems.push('a header without a scope');
  }
  for (const image of document.querySelectorAll('img')) if (!image.alt) problems.push('an image without words');
  if (!document.documentElement.lang) problems.push('no language');
  if (document.querySelectorAll('h1').length !== 1) problems.push('not one main heading');
  let level = 0;
  for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const next = Number(heading.tagName[1]);
    if (next > level + 2) problems.push('headings skip to ' + heading.textContent);
    level = next;
  }
  return problems;
})()"""

# A page must not scroll sideways, whatever file name or command a sentence of it holds: first as it is, then with a word
# of 120 letters added to each text that has no scroll bar of its own. Said of each: by how much the page grows.
PROBLEMS_OF_A_NARROW_SCREEN = r"""(() => {
  const root = document.documentElement;
  const wide = () => root.scrollWidth - window.innerWidth;
  if (wide() > 0) return ['a narrow screen must scroll sideways by ' + wide() + ' pixels'];
  const problems = [];
  for (const element of document.querySelectorAll('p, li, dt, dd, small, h1, h2, h3, summary, figcaption, code, pre.command')) {
    if (element.closest('.scroll, svg, .unseen, .skip')) continue;
    const word = document.createTextNode(' ' + 'x'.repeat(120));
    element.append(word);
    if (wide() > 0) problems.push('a long word in <' + element.tagName.toLowerCase() + '> ' +
                                  element.textContent.slice(0, 40) + '... makes a narrow screen scroll by ' + wide());
    word.remove();
  }
  return problems;
})()"""

# WCAG contrast of every visible text against the nearest painted background; 4.5 is wanted.
LOW_CONTRAST = r"""(() => {
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const element of document.querySelectorAll('p, li, td, th, dt, dd, small, h1, h2, h3, a, code, summary, button, svg text')) {
    if (!element.textContent.trim() || element.classList.contains('on-fill') || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const color = parse(element instanceof SVGElement ? style.fill : style.color);
    const pair = [luminance(color), luminance(behind(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) found.add(element.tagName.toLowerCase() + ' ' + ratio.toFixed(1) + ': ' + element.textContent.slice(0, 40));
  }
  return Array.from(found);
})()"""

# Clicks every header of every sortable table twice and looks at the order of the rows.
PROBLEMS_OF_SORTING = r"""(() => {
  const problems = [];
  let sorted = 0;
  const keys = (table, column) => Array.from(table.tBodies[0].rows, (row) => row.cells[column])
      .map((cell) => cell?.dataset.value === undefined ? null : Number(cell.dataset.value)).filter((key) => key !== null);
  for (const table of document.querySelectorAll('table.sortable')) {
    Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
      const button = header.querySelector('button');
      if (!button) return;
      const rows = table.tBodies[0].rows.length;
      header.removeAttribute('aria-sort');
      for (const [direction, sign] of [['ascending', 1], ['descending', -1]]) {
        button.click();
        ++sorted;
        if (header.getAttribute('aria-sort') !== direction) problems.push(header.textContent + ': not ' + direction);
        const order = keys(table, column);
        if (order.some((key, i) => i > 0 && sign * (key - order[i - 1]) < 0)) {
          problems.push(header.textContent + ': rows are not ' + direction);
        }
      }
      if (table.tBodies[0].rows.length !== rows) problems.push(header.textContent + ': rows were lost');
      if (table.querySelectorAll('[aria-sort]').length !== 1) problems.push(header.textContent + ': two sorted columns');
    });
  }
  if (sorted === 0) problems.push('no table can be sorted');
  return problems;
})()"""


def check_requests(browser, url):
    """What the page asked for or complained about while it was open."""
    problems = []
    for event in browser.events:
        method, parameters = event["method"], event["params"]
        if method == "Network.requestWillBeSent":
            asked = parameters["request"]["url"]
            if asked.split("#")[0] != url and not asked.startswith("data:"):
                problems.append("the page asks for " + asked)
        elif method == "Runtime.exceptionThrown":
            problems.append("exception: " + json.dumps(parameters["exceptionDetails"])[:300])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            problems.append("console: " + json.dumps(parameters["args"])[:300])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            problems.append("log: " + parameters["entry"]["text"])
    return problems


def check_keyboard(browser):
    problems = []
    browser.press("Tab", 9)
    if browser.run("document.activeElement.className") != "skip":
        problems.append("the first stop of the keyboard is not the skip link")
    browser.press("Enter", 13)
    if browser.run("document.activeElement.id") != "main":
        problems.append("the skip link does not lead to the content")
    browser.run("document.querySelector('th button').focus()")
    before = browser.run("document.activeElement.closest('th').getAttribute('aria-sort')")
    browser.press("Enter", 13)
    after = browser.run("document.activeElement.closest('th').getAttribute('aria-sort')")
    if after == before or after not in ("ascending", "descending"):
        problems.append(f"Enter on a header does not sort ({before} to {after})")
    if "Sorted by" not in (browser.run("document.getElementById('said').textContent") or ""):
        problems.append("sorting is not said to screen readers")
    return problems


def check_copying(browser):
    if browser.run("document.querySelectorAll('details.csv').length") == 0:
        return []
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.call("Page.bringToFront")
    browser.run("document.querySelector('button.copy').click()")
    wanted = browser.run("document.querySelector('details.csv pre').textContent")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if "CSV" in browser.run("document.getElementById('said').textContent"):
            break
        time.sleep(0.05)
    got = browser.run("navigator.clipboard.readText()")
    return [] if got.replace("\r\n", "\n") == wanted.replace("\r\n", "\n") else ["the CSV button copies something else"]


def check_without_scripts(browser, url, charts):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url)
    root = browser.call("DOM.getDocument")["root"]["nodeId"]

    def count(selector):
        return len(browser.call("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])

    problems = []
    if count("svg.chart") < charts or count("table") == 0:
        problems.append("charts or tables are missing without scripts")
    if count("button") > 0:
        problems.append("buttons that do nothing without scripts")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    return problems


def print_pdf(browser, path):
    data = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=False,
                                         paperWidth=8.27, paperHeight=11.69)["data"])
    if path:
        path.write_bytes(data)
    pages = len(re.findall(rb"/Type\s*/Page\b", data))
    return [] if data.startswith(b"%PDF") and pages > 0 else ["printing gives no PDF"]


def check(browser, page, charts, pictures):
    url = page.resolve().as_uri()
    problems = []
    browser.size(1280, 900)
    browser.scheme("light")
    browser.open(url)
    drawn = browser.run("document.querySelectorAll('svg.chart').length")
    if drawn < charts:
        problems.append(f"{drawn} charts, expected {charts}")
    problems += browser.run(PROBLEMS_OF_CHARTS) + browser.run(PROBLEMS_OF_STRUCTURE)
    if pictures:
        browser.screenshot(pictures / "light.png")
        browser.screenshot(pictures / "first-screen.png", whole=False)
    problems += ["light: low contrast: " + text for text in browser.run(LOW_CONTRAST)]
    problems += check_keyboard(browser) + browser.run(PROBLEMS_OF_SORTING) + check_copying(browser)
    browser.scheme("dark")
    problems += ["dark: low contrast: " + text for text in browser.run(LOW_CONTRAST)]
    problems += check_requests(browser, url)
    browser.open(url)
    if pictures:
        browser.screenshot(pictures / "dark.png")
    browser.scheme("light")
    browser.size(390, 800)
    browser.open(url)
    problems += browser.run(PROBLEMS_OF_A_NARROW_SCREEN)
    if pictures:
        browser.screenshot(pictures / "narrow.png")
    browser.size(1280, 900)
    browser.open(url)
    problems += print_pdf(browser, pictures / "print.pdf" if pictures else None)
    problems += check_without_scripts(browser, url, charts)
    problems += check_requests(browser, url)
    return drawn, problems


def main():
    words, command = sys.argv[1:], []
    if "--" in words:
        words, command = words[:words.index("--")], words[words.index("--") + 1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("--chromium", required=True)
    parser.add_argument("--page", required=True, type=pathlib.Path)
    parser.add_argument("--charts", type=int, default=1)
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args(words)
    if command:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(command, check=True)
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tpplan-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(options.chromium, profile)
        try:
            drawn, problems = check(browser, options.page, options.charts, options.screenshots)
        finally:
            browser.close()
    for problem in dict.fromkeys(problems):
        print("problem:", problem)
    size = options.page.stat().st_size
    if size > 1 << 20:
        problems.append("larger than 1 MiB")
    print(f"{options.page.name}: {size} bytes, {drawn} charts, {len(set(problems))} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
