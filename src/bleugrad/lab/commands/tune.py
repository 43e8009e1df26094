"""``bleugrad tune``: continue training from the best weights of a run, with another objective."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import add_run_arguments, given_options, option_words, shown_value
from bleugrad.lab.commands.train import add_training_arguments, chosen_settings, show_next
from bleugrad.lab.models.config import ONE_PASS
from bleugrad.lab.runs.directory import CONFIG
from bleugrad.lab.settings.loading import merged, read_toml
from bleugrad.lab.settings.stage import Setting
from bleugrad.lab.training.config import RECIPE, TrainConfig
from bleugrad.lab.training.presets import TUNING


def configure(parser: ArgumentParser) -> None:
    """The initial run, and all settings."""
    parser.add_argument("run", type=Path, metavar="RUN", help="training run that provides the initial weights")
    add_training_arguments(parser, "objective: ce, bound, exact, clipped_mean, candidates, reinforce, mrt or unbiased")
    add_run_arguments(parser, TrainConfig, None, "RUN-OBJECTIVE", default=_default)
    parser.description = (
        f"{parser.description} An option without a default keeps the setting of RUN. "
        "After cross-entropy the objective 'exact' of an autoregressive model is the recommended recipe, unless you "
        "set one of its options or pass --config."
    )


def _default(path: tuple[str, ...], setting: Setting) -> str | None:
    """The default if it is not that of RUN."""
    tuned = TUNING.get(path[0], {})
    return shown_value(tuned[path[-1]]) if path[-1] in tuned else None


def execute(arguments: Namespace) -> None:
    """Tune, or resume."""
    from bleugrad.lab.training.run import read_config, train_run

    read_config(arguments.run)  # an error names RUN
    before = merged(read_toml(arguments.run / CONFIG), TUNING)
    given = given_options(arguments).get("objective", {})
    name = given.get("name", before["objective"]["name"])
    fresh = name == "exact" and before["objective"]["name"] == "ce" and not arguments.config
    if fresh and not RECIPE & given.keys() and before["model"].get("kind", "lstm") not in ONE_PASS:
        before = merged(before, {"objective": {"recommended": True}})
    output = arguments.output or arguments.run.with_name(f"{arguments.run.resolve().name}-{name}")
    config = chosen_settings(arguments, before, output)
    train_run(
        config,
        output,
        initial=arguments.run,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        study="tune",
        command=shlex.join(["bleugrad", "tune", str(arguments.run), *option_words(config), "--output", str(output)]),
    )
    show_next(output)
