"""The page in a browser, with real pointer moves and key presses, shows the values of the Python result."""

import pytest
import torch

from bleugrad.explanation.explain import explain
from bleugrad.explanation.page import explanation_page
from tests.explanation.cases import END, HOSTILE, REFERENCE, WORDS, checkpoint
from tests.explanation.devtools import Browser
from tests.lab.reports.browser import find_browser

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here: install the package chromium")

CELL = '#{} td[data-row="{}"][data-column="{}"]'


def shown(value):
    """A number as the page writes it."""
    if value != 0 and abs(value) < 5e-5:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}e{int(power):+d}"
    return f"{value:.4f}"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def seen():
    return [checkpoint(share, eos_id=END) for share in (0.1, 0.5, 0.8)]


@pytest.fixture(scope="module")
def file(seen, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "explain.html"
    path.write_text(explanation_page(seen, ["step 1", "step 2", "step 3"]), encoding="utf-8")
    return path


@pytest.fixture
def page(browser, file):
    return browser.open(file)


@pytest.mark.parametrize("width", [1280, 400])
def test_hovering_a_cell_shows_its_numbers(browser, file, seen, width):
    page = browser.open(file, width)
    last = seen[-1]
    for t, j in ((0, 0), (3, 4), (8, 6)):
        page.hover(CELL.format("probabilities", t, j))
        assert page.tip() == {
            "title": f"{last.references[0][j]} at position {t + 1}",
            "probability": shown(last.match_probs[t, j].item()),
            f"likeliest: {last.argmax[t]}": shown(last.argmax_probs[t].item()),
            "gradient on its logit": shown(last.gradient[t, j].item()),
            "position reached": shown(last.reach[t].item()),
        }
        x, right = page.evaluate(
            "(({left, right}) => [left, right])(document.querySelector('#tip').getBoundingClientRect())"
        )
        assert 0 <= x < right <= width
    page.hover(CELL.format("gradients", 2, "end"))
    assert page.tip()["gradient on its logit"] == shown(last.eos_gradient[2].item())
    page.hover("h1")
    assert page.tip() is None


def test_the_order_switch_shows_windows_and_ngrams(page, seen):
    page.click('input[name="order"][value="2"]')
    order = seen[-1].orders[1]
    assert page.text("#heading") == "Windows of 2 tokens"
    page.hover(CELL.format("probabilities", 4, 4))
    (ngram,) = (ngram for ngram in order.ngrams if 4 in ngram.columns)
    factors = [f"{seen[-1].match_probs[4 + k, 4 + k].item():.3f}" for k in range(2)]
    assert page.tip() == {
        "title": "the mat from position 5",
        "probability from here on": shown(order.windows[4, 4].item()),
        "factors": " \u00d7 ".join(factors),
        "expected matches, exact": shown(ngram.exact),
        "the bound": shown(ngram.bound),
    }
    rows = page.evaluate("[...document.querySelectorAll('#ngrams tbody tr')].map((row) => row.cells[1].textContent)")
    assert rows == [shown(ngram.exact) for ngram in order.ngrams]
    sums = page.evaluate("[...document.querySelectorAll('#ngrams tfoot td')].map((cell) => cell.textContent)")
    assert sums[:2] == [shown(order.exact), shown(order.bound)]


def test_an_ngram_whose_bound_is_above_the_truth_is_marked(page, seen):
    ngrams = seen[-1].orders[0].ngrams
    (index,) = (index for index, ngram in enumerate(ngrams) if ngram.above)
    marked = page.evaluate(
        "[...document.querySelectorAll('#ngrams tbody tr')].map((row) => !!row.querySelector('.above'))"
    )
    assert marked == [ngram.above for ngram in ngrams]
    page.hover(f'#ngrams tr[data-index="{index}"]')
    tip, ngram = page.tip(), ngrams[index]
    assert (tip["title"], tip["maximum matches"]) == ("the", "2")
    assert tip["bound \u2212 exact"] == shown(ngram.bound - ngram.exact)
    lit = page.evaluate("[...document.querySelectorAll('#probabilities thead .lit')].map((head) => head.textContent)")
    assert lit == ["the", "the"]


def test_the_summary_is_that_of_the_explanation(page, seen):
    last, tiles = seen[-1], page.text("#tiles")
    assert f"{100 * last.lower:.2f} to {100 * last.upper:.2f}" in tiles
    assert all(value in tiles for value in last.summary().values())


def test_keys_step_through_checkpoints_orders_and_cells(page, seen):
    page.press("Tab")  # the chosen order
    page.press("ArrowRight")
    assert page.text("#heading") == "Windows of 2 tokens"
    page.press("ArrowLeft")
    page.press("Tab")  # the slider
    page.press("ArrowLeft")
    assert page.text("output") == "step 2"
    assert f"{100 * seen[1].upper:.2f}" in page.text("#tiles")
    page.press("Home")
    assert page.text("output") == "step 1"
    page.press("Tab")  # the first cell of the heat map
    assert page.focused() == ["0", "0"]
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp"):
        page.press(key)
    assert page.focused() == ["0", "2"]
    assert page.tip()["probability"] == shown(seen[0].match_probs[0, 2].item())
    page.press("ArrowUp")
    assert page.focused() == ["0", "2"], "the edge holds"
    page.press("End", control=True)
    assert page.focused() == ["8", "end"]
    assert page.tip()["probability"] == shown(seen[0].eos_probs[8].item())
    page.press("Escape")
    assert page.tip() is None
    page.press("Tab")  # the n-grams
    page.press("ArrowDown")
    assert page.tip()["title"] == "cat"
    page.press("Tab")  # the gradient
    assert page.tip()["gradient on its logit"] == shown(seen[0].gradient[0, 0].item())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_width_and_stays_by_itself(browser, file, width, dark):
    page = browser.open(file, width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 25, 29)" if dark else "rgb(255, 255, 255)")
    for selector in ("#scale", "#probabilities", "#ngrams", "#gradients"):
        left, right, height = page.evaluate(
            f"""(({{left, right, height}}) => [left, right, height])(
            document.querySelector('{selector}').getBoundingClientRect())"""
        )
        assert 0 <= left < right <= width
        assert height > 30
    cells = page.evaluate("[...document.querySelectorAll('#probabilities td')].map((cell) => cell.offsetWidth)")
    assert min(cells) >= 24, "a finger can meet a cell"
    assert page.complaints() == ([], [])


def test_darker_cells_are_likelier(page, seen):
    alphas = page.evaluate(
        """[...document.querySelectorAll('#probabilities td[data-row="0"]')]
        .map((cell) => Number(cell.style.getPropertyValue('--alpha')))"""
    )
    row = [*seen[-1].match_probs[0].tolist(), seen[-1].eos_probs[0].item()]
    assert alphas == pytest.approx([value**0.6 for value in row], abs=1e-3)


def test_hostile_texts_stay_texts(browser, tmp_path):
    file = tmp_path / "hostile.html"
    file.write_text(explanation_page([checkpoint(0.3), checkpoint(0.9)], [HOSTILE] * 2), encoding="utf-8")
    page = browser.open(file)
    assert page.evaluate("document.title") == "What the loss sees"
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.text(".reference") == f"Reference: {' '.join(WORDS[token] for token in REFERENCE)}"
    assert page.text("output") == HOSTILE
    page.hover(CELL.format("probabilities", 6, 6))
    assert page.tip()["title"] == f"{HOSTILE} at position 7"
    assert page.complaints() == ([], [])


def test_words_have_windows_of_their_own_beside_the_tokens(browser, tmp_path, rng):
    vocabulary = ["▁the", "▁tram", "way", "▁runs"]
    starts = torch.tensor([word.startswith("▁") for word in vocabulary])
    logits = torch.tensor(rng.normal(size=(4, 4)))
    seen = explain(logits, [[0, 1, 2, 3], [0, 3]], vocabulary=vocabulary, word_start=starts, samples=0)
    file = tmp_path / "words.html"
    file.write_text(seen.html(), encoding="utf-8")
    page = browser.open(file)
    page.hover(CELL.format("probabilities", 1, 2))
    assert page.tip()["title"] == "way at position 2"
    page.click('input[name="order"][value="1"]')
    page.hover(CELL.format("probabilities", 0, 1))
    assert page.tip()["title"] == "▁tramway from position 1"
    assert page.tip()["probability from here on"] == shown(seen.orders[0].windows[0, 1].item())
    page.click('input[name="order"][value="4"]')
    assert "no 4-gram" in page.text("#ngrams")
    assert page.complaints() == ([], [])
