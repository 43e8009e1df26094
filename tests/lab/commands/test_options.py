"""Options are the settings' fields: each is offered, parsed into the settings, and written back as a command."""

import argparse
from dataclasses import dataclass
from typing import Literal

from bleugrad.lab.commands.options import add_options, given_options, option_words
from bleugrad.lab.experiments.toy.config import ToyConfig
from bleugrad.lab.settings.config import Config, inner, option
from bleugrad.lab.settings.loading import load


@dataclass(frozen=True)
class Inner(Config):
    max_order: int = option(2, "100% of it")


@dataclass(frozen=True)
class Outer(Config):
    rates: tuple[float, ...] = option((0.1,), "rates")
    fast: bool = option(True, "hurry")
    mode: Literal["up", "down"] = option("up", "which way")
    label: str = option("plain", "name")
    inner: Inner = inner(Inner, "inside")


def parse(kind, words):
    parser = argparse.ArgumentParser()
    add_options(parser, kind)
    parser.format_help()
    return load(kind, None, given_options(parser.parse_args(words)))


def test_options_become_settings_and_settings_options():
    words = "--rates 0.5 2 --no-fast --mode down --label <script> --inner-max-order 4".split()
    config = parse(Outer, words)
    assert config == Outer(rates=(0.5, 2.0), fast=False, mode="down", label="<script>", inner=Inner(max_order=4))
    assert parse(Outer, option_words(config)) == config


def test_a_text_that_looks_like_an_option_stays_a_value():
    config = Outer(label="--fast")
    assert parse(Outer, option_words(config)) == config


def test_settings_at_their_default_need_no_options():
    assert parse(Outer, []) == Outer()
    assert option_words(Outer()) == []
    assert option_words(ToyConfig(seed=4, orders=(2,))) == ["--seed", "4", "--orders", "2"]


def test_an_option_given_at_its_default_overrides_the_file(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('mode = "down"\n')
    parser = argparse.ArgumentParser()
    add_options(parser, Outer)
    assert load(Outer, file, given_options(parser.parse_args(["--mode", "up"]))).mode == "up"
    assert load(Outer, file, given_options(parser.parse_args([]))).mode == "down"
