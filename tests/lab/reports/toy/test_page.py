"""The toy report in a browser: figures and tables are seen at two widths, in light and dark; texts stay text."""

import pytest

from bleugrad.lab.commands.main import main
from tests.lab.reports.browser import find_browser, look

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here: install the package chromium")

SMALL = """--orders 1 2 --vocabulary 30 --length 4 --seeds 2 --steps 20 --learning-rate 0.3 --samples 50
--repeats-cases 4 --repeats-vocabulary 3 --repeats-length 3""".split()
HOSTILE_NAME = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report whose command holds a script tag, by way of its directory's name."""
    output = tmp_path_factory.mktemp("report") / HOSTILE_NAME
    assert main(["toy", *SMALL, "--output", str(output)]) == 0
    return output / "report.html"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_figures_and_tables_are_seen(report, tmp_path, width, dark):
    seen = look(report, tmp_path, width, dark)
    assert len(seen["images"]) == 5
    for image in seen["images"]:
        assert image["drawn"]
        assert 300 <= image["width"] <= width
        assert image["height"] > 200
        assert 0 <= image["x"] <= width - image["width"]
    assert len({image["source"] for image in seen["images"]}) == 5
    correlations, repeats = seen["tables"][:2]
    assert "BLEU-2" in correlations["text"]
    assert "repeated words" in repeats["text"]
    assert all(table["width"] > 100 and table["height"] > 50 for table in seen["tables"])
    assert seen["overflow"] == 0, "the page scrolls sideways"
    assert seen["outside"] == []
    assert seen["background"] == ("rgb(22, 25, 29)" if dark else "rgb(255, 255, 255)")


def test_dark_pages_show_dark_figures(report, tmp_path):
    (light, dark) = (look(report, tmp_path, 390, dark)["images"][0]["source"] for dark in (False, True))
    assert light != dark


def test_a_directory_named_as_a_script_stays_text(report, tmp_path):
    seen = look(report, tmp_path, 390)
    assert seen["scripts"] == 0
    assert seen["title"].startswith("Toy study")
    assert "<script>document.title=" in seen["text"]
    assert "bleugrad toy --orders 1 2" in seen["text"]
