"""The tables of the paper's experiment as Markdown and terminal text."""

from bleugrad.lab.reports.formats import Table, aligned, markdown_text
from bleugrad.lab.reports.paper.tables import scores_table, signatures_table, terminal_text
from tests.lab.reports.paper.summary import make_summary


def test_markdown_is_bold_and_escaped():
    summary = make_summary()
    summary["titles"]["exact"] = "a|b*c_d"
    text = markdown_text([("Scores", [scores_table(summary), signatures_table(summary), "a *star*"])])
    assert r"| a\|b\*c\_d | **33.00 ± 0.20** | +2.00 |" in text
    assert text.startswith("# Results\n\n## Scores\n\n|  | greedy |")
    assert all(line.count(" | ") == 6 for line in text.splitlines()[4:9])
    assert r"| nrefs:1\|case:mixed" in text
    assert text.endswith("\n\na \\*star\\*\n")


def test_the_terminal_has_stars_for_bold():
    lines = terminal_text(make_summary()).splitlines()
    assert lines[0] == "Test BLEU on tatoeba_tiny (500 sentences), mean ± standard deviation of 2 seeds."
    assert lines[4].split() == ["exact", "33.00", "±", "0.20*", "+2.00", "33.00", "±", "0.20", "+2.00"]
    assert lines[5].startswith("*: better than CE")
    assert len({len(line) for line in lines[1:5]}) == 1


def test_numbers_are_aligned_right_and_rounded():
    assert aligned(Table(["", "value"], [["a", 0.123456], ["longer", 7]], "")).splitlines() == [
        "         value",
        "a       0.1235",
        "longer       7",
    ]
