"""Settings of the data: what is checked, and that reading them loads nothing heavy."""

import os
import subprocess
import sys

import pytest

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.loading import build, load, to_toml

FILES = dict.fromkeys(("train_source", "train_target", "valid_source", "valid_target"), "x")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"corpus": "iwslt"}, "corpus is 'iwslt'; expected 'builtin' or 'iwslt14'"),
        ({"batchsize": 3}, "unknown setting 'batchsize'; did you mean 'batch_size'?"),
        ({"batch_size": 0}, "batch_size is 0; expected at least 1"),
        ({"train_source": "a"}, "train_source is given and corpus is 'builtin'; expected corpus 'files'"),
        ({"corpus": "files"}, "train_source is not given; expected it, or directory"),
        ({"corpus": "files", **FILES, "test_source": "x"}, "test_target is not given; expected both sides"),
        ({"units": "bpe", "vocabulary_target": "x"}, "units is 'bpe' and a word list is given"),
        ({"vocabulary_size": 4}, "vocabulary_size is 4; expected at least 5, or 0"),
        ({"max_ratio": 0.5}, "max_ratio is 0.5; expected at least 1, or 0"),
        ({"source_language": "en"}, "target_language is 'en', the same as source_language"),
        ({"source_language": ""}, "a language is empty"),
    ],
)
def test_wrong_settings_are_refused(values, message):
    with pytest.raises(UsageError) as error:
        build(DataConfig, values)
    assert message in str(error.value)


def test_settings_survive_a_file(tmp_path):
    config = DataConfig(corpus="files", **FILES, max_ratio=1.5, units="bpe", lowercase=True)
    (tmp_path / "data.toml").write_text(to_toml(config))
    assert load(DataConfig, tmp_path / "data.toml") == config


def test_nothing_heavy_is_loaded_to_describe_or_list_corpora():
    script = """
import sys
import bleugrad.lab.commands.data
import bleugrad.lab.data.preparation, bleugrad.lab.data.named.fetching
heavy = {"torch", "numpy", "tokenizers", "sacremoses", "tqdm"} & set(sys.modules)
assert not heavy, heavy
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
