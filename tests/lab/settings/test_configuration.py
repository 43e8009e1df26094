"""Settings: types and ranges are checked, unknown keys are errors with a suggestion, TOML is read as written."""

import sys
from dataclasses import dataclass, field
from typing import Literal

import pytest

from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.config import Config, inner, option
from bleugrad.lab.settings.loading import build, load, to_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Inner(Config):
    width: int = option(3, "how wide", minimum=1, maximum=9)
    loud: bool = option(False, "whether to shout")


@dataclass(frozen=True)
class Outer(Config):
    rate: float = option(0.5, "how fast", above=0)
    sizes: tuple[int, ...] = option((1, 2), "which sizes", minimum=1)
    mode: Literal["up", "down"] = option("up", "which way")
    label: str = option("plain", "what to call it")
    inner: Inner = inner(Inner, "the part inside")


def write(tmp_path, text):
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_then_file_then_overrides(tmp_path):
    file = write(tmp_path, 'rate = 2\nmode = "down"\n[inner]\nwidth = 4\nloud = true\n')
    config = load(Outer, file, {"mode": "up", "inner": {"width": 5}})
    assert config == Outer(rate=2.0, mode="up", inner=Inner(width=5, loud=True))
    assert isinstance(config.rate, float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raet = 1", r"unknown setting 'raet'; did you mean 'rate'\?"),
        ("[inner]\nwidht = 1", r"unknown setting 'inner.widht'; did you mean 'inner.width'\?"),
        ("zzz = 1", "expected one of rate, sizes, mode, label, inner"),
        ("rate = 0", "rate is 0.0; expected more than 0"),
        ("rate = nan", "rate is nan; expected a finite number"),
        ('rate = "fast"', "rate is 'fast'; expected a number"),
        ("sizes = []", "sizes is \\[\\]; expected a list of at least one whole number"),
        ("sizes = 3", "sizes is 3; expected a list"),
        ("sizes = [1, 0]", "sizes is 0; expected at least 1"),
        ("sizes = [1.5]", "sizes is 1.5; expected a whole number"),
        ('mode = "sideways"', "mode is 'sideways'; expected 'up' or 'down'"),
        ("label = 1", "label is 1; expected text"),
        ("inner = 1", "inner is 1; expected a table of settings"),
        ("[inner]\nwidth = true", "inner.width is True; expected a whole number"),
        ("[inner]\nwidth = 10", "inner.width is 10; expected at most 9"),
        ("[inner]\nloud = 1", "inner.loud is 1; expected true or false"),
        ("rate = ", "cannot be read as TOML"),
        ("rate = 1e39", r"rate is 1e\+39; expected at most 1e\+30"),
        ("rate = 1e-45", "rate is .*; expected 0, or at least 1e-30 in size"),
        (f"rate = {'9' * 400}", "rate is a whole number of 1329 bits; expected at most 63"),
        (f"rate = 0x{'f' * 5000}", "rate is a whole number of 20000 bits"),
        (f"rate = {'9' * 5000}", "cannot be read as TOML: .*digits"),
        ("sizes = [2147483648]", "sizes is 2147483648; expected at most 2147483647"),
        (r'label = "a\u0000b"', r"label is 'a\\x00b'; expected UTF-8 text without NUL"),
        ("sizes = " + "[" * 10**5 + "]" * 10**5, "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        load(Outer, write(tmp_path, text))
    assert "settings.toml" in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*absent\.toml: No such file"):
        load(Outer, tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'label = "caf\xe9"')
    with pytest.raises(UsageError, match="not UTF-8"):
        load(Outer, tmp_path / "latin.toml")


def test_a_mistake_in_python_is_the_same_error():
    with pytest.raises(UsageError, match="rate is -1"):
        Outer(rate=-1.0)
    with pytest.raises(UsageError, match=r"label is .* expected UTF-8 text"):
        Outer(label="\udcff")


def test_toml_written_is_toml_read(tmp_path):
    label = 'a "quoted" \\ café 😀 \x7f \t\n<script>'
    config = Outer(rate=1e-12, sizes=(7,), mode="down", label=label, inner=Inner(loud=True))
    text = to_toml(config)
    assert load(Outer, write(tmp_path, text)) == config
    assert tomllib.loads(text)["inner"] == {"width": 3, "loud": True}
    assert "# how wide" in text


def test_a_type_toml_cannot_say_is_an_error():
    @dataclass(frozen=True)
    class Odd:
        value: complex = field(default=1j)

    from bleugrad.lab.settings.loading import toml_value

    with pytest.raises(TypeError, match="complex"):
        toml_value(Odd().value)


def test_a_dropped_setting_is_read_at_the_value_it_always_has_now():
    from bleugrad.lab.data.config import DataConfig

    assert build(DataConfig, {"builtin_seed": 0, "batch_size": 8}).batch_size == 8
    with pytest.raises(UsageError, match="unknown setting 'builtin_seed'"):
        build(DataConfig, {"builtin_seed": 3})
