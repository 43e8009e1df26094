"""A run beside the paper: published numbers, and what differs."""

from dataclasses import asdict

import pytest

from bleugrad.lab.experiments.paper.presets import PRESETS, configured
from bleugrad.lab.reports.page import Quiet
from bleugrad.lab.reports.paper.publication import paper_table, published_corpus, settings_table
from tests.lab.reports.paper.summary import make_summary


def summary_of(corpus, pairs=153000, seeds=range(1, 9)):
    summary = make_summary()
    for search in summary["searches"]:
        systems = summary["scores"][search]["systems"]
        systems |= {"reinforce-own": systems["exact"], "bound-sentence": systems["exact"]}
    summary["titles"] |= {"reinforce-own": "RF (own samples)", "bound-sentence": "LB (sentence)"}
    summary |= {"corpus": corpus, "seeds": list(seeds)}
    for run in summary["runs"]["base"]:
        run["training_pairs"] = pairs
    return summary


def config_of(name, **options):
    return asdict(configured(PRESETS[name], None, options))


def differences(summary, config):
    rows = settings_table(summary, config).rows
    return [f"{name}: {here} (paper: {stated})" for name, stated, here, same in rows if same == "differs"]


def test_nothing_differs_where_the_paper_is_followed_with_its_own_data():
    assert differences(summary_of("iwslt14"), config_of("iwslt14", protocol="paper")) == []


def test_every_difference_is_named():
    found = differences(summary_of("iwslt14", pairs=44885, seeds=[1]), config_of("iwslt14", protocol="paper"))
    assert found == ["training pairs: 44,885 (paper: 153,000)", "runs: 1 (paper: 8)"]
    tuned = differences(summary_of("multi30k", pairs=29000, seeds=[1, 2, 3]), config_of("multi30k"))
    names = [text.split(":")[0] for text in tuned]
    assert names == [
        *[
            "corpus",
            "training pairs",
            "tokens",
            "first phase",
            "learning rate, first phase",
            "learning rate, CE and LB",
        ],
        *["learning rate, RF", "RF", "LB", "runs"],
    ]
    assert "tokens: words that occur 2 times or more (paper: words of the published lists)" in tuned
    assert "learning rate, RF: best of 0.000003, 0.00001, 0.00003 (paper: 0.00001)" in tuned
    assert "LB: score of the pooled batch, smoothing 1 (paper: scores of sentences, smoothing 1)" in tuned


def test_other_tokens_and_shorter_sentences_are_named():
    config = config_of("iwslt14", protocol="paper")
    config["data"] |= {"units": "bpe", "vocabulary_size": 4000, "max_length": 20}
    assert differences(summary_of("iwslt14"), config) == [
        "longest training sentence: 20 words (paper: 50 words)",
        "tokens: subwords (bpe), 4,000 (paper: words of the published lists)",
    ]
    config["data"] |= {"vocabulary_size": 0, "max_length": 0}
    assert differences(summary_of("iwslt14"), config) == [
        "longest training sentence: no limit (paper: 50 words)",
        "tokens: subwords (bpe) (paper: words of the published lists)",
    ]
    config = config_of("tiny", protocol="paper")
    assert "tokens: all words (paper: words of the published lists)" in differences(summary_of("tatoeba_tiny"), config)


def test_table_2_is_that_of_wmt():
    config = config_of("wmt14", protocol="paper")
    assert published_corpus(config) == "wmt14"
    assert published_corpus({"data": {"corpus": "files", "directory": "/somewhere/wmt_mini"}}) == "wmt14"
    assert published_corpus({"data": {"corpus": "files", "directory": "/somewhere/else"}}) == "iwslt14"
    rows = settings_table(summary_of("wmt14", pairs=4500000), config).rows
    assert {row[-1] for row in rows} == {"same"}
    assert ["RF", "not run", "not run", "same"] in rows
    with_reinforce = config | {"branches": config_of("iwslt14", protocol="paper")["branches"]}
    assert differences(summary_of("wmt14", pairs=4500000), with_reinforce) == [
        "learning rate, RF: 0.00001 (paper: not run)",
        "RF: sequences that the decoder samples (paper: not run)",
    ]
    assert ["encoder", *2 * ["bidirectional LSTM, 2 layers, 512 units"], "same"] in rows


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("iwslt14", ["26.60 ± 0.14", "27.16 ± 0.18", "27.83 ± 0.17", ""]),
        ("wmt14", ["17.12 ± 0.2", "", "18.65 ± 0.13", ""]),
    ],
)
def test_published_numbers_stand_below_ours_in_grey(name, published):
    summary = summary_of(name)
    table = paper_table(summary, config_of(name, protocol="paper"))
    assert table.header == ["beam", "CE", "RF (own samples)", "LB (sentence)", "exact"]
    assert [row[0] for row in table.rows] == ["1", "published", "5", "published"]
    assert table.rows[1][1:] == published
    assert all(isinstance(cell, Quiet) for cell in table.rows[1])
    assert table.rows[0][4] == "33.00 ± 0.20"
