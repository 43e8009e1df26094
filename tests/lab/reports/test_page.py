"""The page: self-contained, every text escaped."""

import re

import pytest

from bleugrad.lab.reports import page
from bleugrad.lab.reports.style import save_figure
from tests.lab.reports.browser import find_browser, look

LINE = "<script>document.title = 'owned'</script> & \"quoted\" <img src=x onerror=alert(1)>"


def draw(figure, palette):
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=palette.blue)
    axes.set_xlabel(LINE)


def hostile_page(folder):
    """Every place a text can go holds a text that wants to be markup."""
    save_figure(folder, "drawing", 3.0, draw)
    drawing = page.figure(folder, "drawing", LINE, LINE)
    parts = [page.heading(LINE), page.paragraph(LINE), page.preformatted(LINE), page.figures([drawing])]
    return page.page(LINE, [*parts, page.table([LINE], [[LINE], [1.5], [3]], LINE)])


def test_every_text_is_escaped(tmp_path):
    text = hostile_page(tmp_path)
    assert "<script" not in text
    assert "<img src=x" not in text
    assert text.count("&lt;script&gt;") == 10
    assert 'onerror=alert(1)"' not in text


def test_the_page_needs_nothing_from_outside(tmp_path):
    text = hostile_page(tmp_path)
    addresses = re.findall(r'(?:src|srcset|href|action)="([^"]*)"', text)
    assert addresses
    assert all(address.startswith("data:image/svg+xml;base64,") for address in addresses)
    assert "@import" not in text
    assert "url(" not in text


def test_numbers_stand_to_the_right_and_keep_their_kind():
    text = page.table(["a"], [["x", 3, 0.5]])
    assert '<td>x</td><td class="number">3</td><td class="number">0.5000</td>' in text


@pytest.mark.skipif(find_browser() is None, reason="no Chromium here: install the package chromium")
def test_a_corpus_line_with_a_script_tag_stays_text(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(hostile_page(tmp_path), encoding="utf-8")
    seen = look(page, tmp_path, 390)
    assert seen["scripts"] == 0
    assert seen["title"] == LINE
    assert LINE in seen["tables"][0]["text"]
    assert len(seen["images"]) == 1
