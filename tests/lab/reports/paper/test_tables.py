"""The tables of the paper's experiment: bold only where a test supports it."""

from bleugrad.lab.reports.page import Strong
from bleugrad.lab.reports.paper.tables import (
    base_table,
    bold_rule,
    choices_table,
    differences_table,
    lengths_table,
    scores_table,
    signatures_table,
    tries_table,
)
from tests.lab.reports.paper.summary import SIGNATURE, make_summary


def test_only_what_the_test_supports_is_bold():
    ce, exact, with_beam = (scores_table(make_summary()).rows[row][column] for row, column in ((1, 1), (2, 1), (2, 4)))
    assert (ce, exact, with_beam) == ("31.00 ± 0.20", "33.00 ± 0.20", "33.00 ± 0.20")
    assert isinstance(exact, Strong)
    assert not isinstance(ce, Strong)
    assert not isinstance(with_beam, Strong)
    assert bold_rule(make_summary()).startswith("Bold: better than CE")
    assert bold_rule(make_summary(best=None)).startswith("Nothing is bold")
    without = make_summary(best=None)
    del without["titles"]["ce"]
    assert bold_rule(without).startswith("Without CE there is nothing to compare with")


def test_one_seed_has_no_spread_and_no_test():
    summary = make_summary(seeds=(1,))
    assert [row[1] for row in scores_table(summary).rows] == ["30.00", "31.00", "33.00"]
    assert "nothing is bold" in bold_rule(summary)
    assert differences_table(summary, "greedy").rows == [["exact - CE", "+2.00", "-", "0.40", "0.200"]]


def test_signatures_stand_beside_their_scores():
    assert signatures_table(make_summary()).rows[0] == ["BLEU", SIGNATURE]
    assert signatures_table(make_summary()).rows[1][0] == "chrF"


def test_scores_have_intervals_and_differences():
    table = scores_table(make_summary())
    assert table.header == [
        "",
        *("greedy", "difference from CE", "95 % interval"),
        *("beam 5", "difference from CE", "95 % interval"),
    ]
    assert table.rows[0][:4] == ["base (first phase)", "30.00 ± 0.20", "-1.00", "29.0 to 31.0"]
    assert table.rows[1][2] == ""
    assert table.rows[2][2] == "+2.00"


def test_differences_point_away_from_cross_entropy():
    summary = make_summary()
    assert differences_table(summary, "greedy").rows == [["exact - CE", "+2.00", "0.010", "0.40", "0.200"]]
    for pair in summary["scores"]["greedy"]["pairs"]:
        pair["one"], pair["other"], pair["difference"] = pair["other"], pair["one"], -pair["difference"]
    assert differences_table(summary, "greedy").rows == [["exact - CE", "+2.00", "0.010", "0.40", "0.200"]]
    assert len(differences_table(summary, "greedy", every=True).rows) == 3


def test_equal_outputs_are_called_equal():
    summary = make_summary()
    summary["scores"]["greedy"]["pairs"][2]["equal"] = True
    assert differences_table(summary, "greedy").rows == [["exact - CE", "0.00", "equal", "", "equal"]]


def test_the_details_tell_rates_lengths_and_times():
    base, ce, exact = choices_table(make_summary()).rows
    assert base == ["base", "12.5", "3", ""]
    assert ce == ["CE", "12.5", "2", "1.0e-04"]
    assert exact[-1] == "1.0e-04, 2.0e-04"
    assert lengths_table(make_summary()).rows[1][:4] == ["CE", "51.00", "0.981", "0.980"]


def test_every_try_is_shown_and_a_base_that_has_not_converged_too():
    summary = make_summary()
    assert tries_table(summary).rows[1] == ["exact", "1.0e-04: 31.00", "2.0e-04: 32.00"]
    summary["runs"]["base"][0]["converged"] = False
    assert [row[-1] for row in base_table(summary).rows] == ["no", "yes"]
