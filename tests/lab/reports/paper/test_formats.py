"""The tables of the paper's experiment as Markdown and terminal text."""

from bleugrad.lab.reports.paper.formats import markdown_text, terminal_text
from tests.lab.reports.paper.summary import make_summary


def test_markdown_is_bold_and_escaped():
    summary = make_summary()
    summary["titles"]["exact"] = "a|b*c_d"
    text = markdown_text(summary)
    assert "| greedy | 31.00 ± 0.20 | **33.00 ± 0.20** |" in text
    assert r"a\|b\*c\_d" in text
    assert all(line.count(" | ") == 2 for line in text.splitlines()[2:6])
    assert "`nrefs:1|case:mixed" in text


def test_the_terminal_has_stars_for_bold():
    lines = terminal_text(make_summary()).splitlines()
    assert lines[0] == "Test BLEU on tatoeba_tiny (500 sentences), mean ± standard deviation of 2 seeds."
    assert lines[4].split() == ["exact", "33.00", "±", "0.20*", "+2.00", "33.00", "±", "0.20", "+2.00"]
    assert lines[5].startswith("*: better than CE")
    assert len({len(line) for line in lines[1:5]}) == 1
