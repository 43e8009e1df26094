"""``bleugrad tune``: continue training from the best weights of a run, with another objective."""

import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from bleugrad.lab.commands.options import add_run_arguments, given_options, option_words, shown_value
from bleugrad.lab.commands.train import add_training_arguments, chosen_settings, on_first_process, show_next
from bleugrad.lab.data.config import PLACES
from bleugrad.lab.settings.config import Setting
from bleugrad.lab.settings.loading import layered, merged
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.objectives.config import OBJECTIVES
from bleugrad.lab.training.presets import tuning

SUMMARY = "continue training from the best weights of a run, with another objective"
EXAMPLE = "bleugrad tune runs/tiny --output runs/tiny-recommended"
RECOMMENDED, ONE_PASS = "recommended", "exact"
"""The objectives if none is named. A one-pass model gains much more by the plain loss: see ``docs/one-pass.md``."""


def configure(parser: ArgumentParser) -> None:
    """The initial run, and all settings."""
    parser.add_argument("run", type=Path, metavar="RUN", help="training run that provides the initial weights")
    default = f"{RECOMMENDED}; {ONE_PASS} for one-pass models"
    add_training_arguments(parser, f"objective: {', '.join(OBJECTIVES)} (default: {default})")
    add_run_arguments(parser, TrainConfig, None, "RUN-OBJECTIVE", default=_default)
    parser.description = f"{parser.description} An option without a default keeps the setting of RUN."


def _default(path: tuple[str, ...], setting: Setting) -> str | None:
    """The default if it is not that of RUN; that of one-pass models is added if it is another."""
    if path == ("objective", "name"):
        return RECOMMENDED
    found = [tuning(one_pass).get(path[0], {}).get(path[-1]) for one_pass in (False, True)]
    usual, other = (None if value is None else shown_value(value) for value in found)
    if usual is None:
        return shown_value(setting.default) if setting.users else None
    return usual if other in (usual, None) else f"{usual}; one-pass models: {other}"


def execute(arguments: Namespace) -> None:
    """Tune, or resume."""
    from bleugrad.lab.training.run import read_config, train_run

    run, given = read_config(arguments.run), given_options(arguments)
    default = ONE_PASS if run.model.one_pass else RECOMMENDED
    before = merged(asdict(run), tuning(run.model.one_pass)) | {"objective": {"name": default}}
    if default == RECOMMENDED and (smoothing := getattr(run.objective, "label_smoothing", 0.0)):
        before["objective"]["label_smoothing"] = smoothing
    if "corpus" in given.get("data", {}):  # another corpus is not where that of the run is
        before["data"] = {key: value for key, value in before["data"].items() if key not in PLACES}
    output = arguments.output
    if output is None:
        name = layered(TrainConfig, before, arguments.config, given).objective.name
        output = arguments.run.with_name(f"{arguments.run.resolve().name}-{name}")
    config = chosen_settings(arguments, before, output)
    named = arguments.config or arguments.resume or "name" in given.get("objective", {})
    if run.model.one_pass and not named and on_first_process():
        print(f"objective: {default}; the recommended recipe is for models that translate token by token")
    train_run(
        config,
        output,
        initial=arguments.run,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        study="tune",
        command=shlex.join(
            ["bleugrad", "tune", str(arguments.run), *option_words(config, before), "--output", str(output)]
        ),
    )
    show_next(output)
