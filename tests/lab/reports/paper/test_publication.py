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
    assert found == ["training pairs: 44,885 (paper: 153,000)", "seeds: 1 (paper: 8)"]
    tuned = differences(summary_of("multi30k", pairs=29000, seeds=[1, 2, 3]), config_of("multi30k"))
    assert [text.split(":")[0] for text in tuned] == [
        *["training pairs", "data.corpus", "data.vocabulary_source"],
        *["base.learning_rate", "base.decay", "base.early_stopping", "tuning.factors", "branches", "seeds"],
    ]
    assert "data.vocabulary_source: none (paper: corpus)" in tuned
    assert "tuning.factors: 0.3, 1.0, 3.0 (paper: 1.0)" in tuned
    assert "branches: ce (paper: ce, reinforce-own, bound-sentence)" in tuned


def test_other_tokens_and_shorter_sentences_are_named():
    config = config_of("iwslt14", protocol="paper")
    config["data"] |= {"units": "bpe", "vocabulary_size": 4000, "max_length": 20}
    assert differences(summary_of("iwslt14"), config) == [
        "data.max_length: 20 (paper: 50)",
        "data.units: bpe (paper: words)",
        "data.vocabulary_size: 4,000 (paper: 0)",
    ]


def test_table_2_is_that_of_wmt():
    config = config_of("wmt14", protocol="paper")
    assert published_corpus(config) == "wmt14"
    assert published_corpus({"data": {"corpus": "files", "directory": "/somewhere/wmt_mini"}}) == "wmt14"
    assert published_corpus({"data": {"corpus": "files", "directory": "/somewhere/else"}}) == "iwslt14"
    rows = settings_table(summary_of("wmt14", pairs=4500000), config).rows
    assert {row[-1] for row in rows} == {"same"}
    for row in (
        ["data.vocabulary_size", *2 * ["50,000"], "same"],
        ["model.encoder_layers", *2 * ["2"], "same"],
        ["model.hidden", *2 * ["512"], "same"],
        ["branches", *2 * ["ce, bound-sentence"], "same"],
    ):
        assert row in rows


PAPER = {
    "training pairs": "153,000",
    "data.max_length": "50",
    "model.hidden": "256",
    "base.epochs": "20",
    "base.learning_rate": "0.0001",
    "tuning.epochs": "5",
    "tuning.learning_rate": "0.0001",
    "tuning.reinforce_learning_rate": "1e-05",
    "seeds": "8",
    "beam": "5",
}


def test_the_settings_are_those_that_the_paper_prints():
    rows = settings_table(summary_of("iwslt14"), config_of("multi30k")).rows
    stated = {name: value for name, value, _, _ in rows}
    assert {name: stated[name] for name in PAPER} == PAPER


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
