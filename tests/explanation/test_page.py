"""The page as text: escaped everywhere, nothing from outside, the numbers of the explanation inside."""

import html
import json
import re
from html.parser import HTMLParser

import pytest

from bleugrad import BLEU
from bleugrad.explanation.page import explanation_page
from tests.explanation.cases import HOSTILE, IMAGE, checkpoint


class Tags(HTMLParser):
    """The names of a page's elements and of their attributes."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


@pytest.fixture(scope="module")
def page():
    return explanation_page([checkpoint(0.2), checkpoint(0.7)], [HOSTILE, IMAGE])


def test_no_text_becomes_markup(page):
    assert HOSTILE not in page
    assert "<img" not in page
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    data = embedded(page)
    assert HOSTILE in data[0]["references"][0]
    assert [at["name"] for at in data] == [HOSTILE, IMAGE]


def test_the_page_asks_for_nothing(page):
    parser = Tags()
    parser.feed(page)
    assert {"html", "style", "script", "div"} <= parser.tags
    assert not parser.tags & {"link", "img", "iframe", "object", "embed", "base"}
    assert not parser.attributes & {"src", "srcset", "href", "action", "onerror", "onload"}
    style = page.split("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style
    assert "default-src 'none'" in page
    assert "unsafe-inline" not in page


def test_the_numbers_are_those_of_the_explanation(page):
    seen, data = checkpoint(0.7), embedded(page)
    at = data[1]
    assert at["match_probs"] == [[pytest.approx(p, rel=1e-8) for p in row] for row in seen.match_probs.tolist()]
    assert at["gradient_norm"] == pytest.approx(seen.gradient_norm.tolist(), rel=1e-8)
    for order, shown in zip(seen.orders, at["orders"], strict=True):
        for name in ("exact", "bound"):
            assert [ngram[name] for ngram in shown["ngrams"]] == [getattr(ngram, name) for ngram in order.ngrams]
        assert shown["exact"] == order.exact
    assert (at["lower"], at["upper"]) == (seen.lower, seen.upper)


def test_without_scripts_the_text_is_shown(page):
    shown = re.search(r"<noscript>.*?<pre>(.*?)</pre></noscript>", page, re.S).group(1)
    assert html.unescape(shown) == checkpoint(0.7).text(100)


def test_a_notebook_gets_the_page_in_a_frame_of_its_own():
    seen = checkpoint(0.5)
    frame = seen._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame).group(1)) == seen.html()


def test_checkpoints_must_be_of_one_sentence():
    with pytest.raises(ValueError, match=r"explanations\[1\] has score 'BLEU-4 with smoothing 0'; expected .*1'"):
        explanation_page([checkpoint(0.1), checkpoint(0.1, score=BLEU(smoothing=0.0))])
    with pytest.raises(ValueError, match="names has 1 entries; expected 2"):
        explanation_page([checkpoint(0.1), checkpoint(0.2)], ["one"])
    with pytest.raises(ValueError, match="explanations is empty"):
        explanation_page([])


def test_a_page_of_too_many_cells_is_refused_and_a_notebook_shows_the_text(monkeypatch):
    seen = checkpoint(0.2)
    cells = len(seen.argmax) * len(seen.references[0]) * len(seen.orders)
    monkeypatch.setattr("bleugrad.explanation.page.MOST_PAGE_CELLS", 2 * cells)
    assert explanation_page([seen] * 2)
    with pytest.raises(ValueError, match=rf"the page has 9 .* x 3 checkpoints = {3 * cells} cells; expected at most"):
        explanation_page([seen] * 3)
    monkeypatch.setattr("bleugrad.explanation.page.MOST_PAGE_CELLS", cells - 1)
    assert seen._repr_html_() is None
