"""Progress: a bar with rate, remaining time and metric in a terminal; plain lines elsewhere."""

import io
import re

from bleugrad.lab.runs import progress
from bleugrad.lab.runs.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_pipe_gets_few_plain_lines():
    stream = io.StringIO()
    with Progress(1000, "climbing", stream=stream) as work:
        for _ in range(1000):
            work.advance(bleu=0.25)
    (line,) = stream.getvalue().splitlines()
    assert re.fullmatch(r"climbing: 1000/1000 steps, [\d.e+]+ steps/s, 0 s left, bleu 0\.25", line)


def test_a_pipe_gets_a_line_whenever_enough_time_has_passed(monkeypatch):
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    with Progress(10, "climbing", unit="case", stream=stream) as work:
        for _ in range(5):
            work.advance()
    lines = stream.getvalue().splitlines()
    assert 1 <= len(lines) < 5
    assert re.search(r"cases/s, \d+ s left$", lines[0])
    assert "\r" not in stream.getvalue()


def test_a_terminal_gets_a_bar_that_is_updated_in_place():
    stream = Terminal()
    with Progress(4, "climbing", stream=stream) as work:
        for _ in range(4):
            work.advance(bleu=0.25)
    shown = stream.getvalue()
    assert "\r" in shown
    assert "4/4" in shown
    assert "bleu=0.25" in shown
    assert "step/s" in shown
