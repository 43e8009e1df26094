"""``bleugrad toy``: the paper's toy task (section 4.1), and where its bound exceeds the truth."""

from bleugrad.cli.command import run_command
from bleugrad.experiments.toy.config import ToyConfig
from bleugrad.extras import require_extra
from bleugrad.runs.directory import REPORT, Run


def work(config: ToyConfig, run: Run) -> None:
    """Run both studies, then draw them."""
    require_extra("plots", "matplotlib", "the report of the toy study")
    import torch

    from bleugrad.experiments.toy.study import run_study
    from bleugrad.reports.toy.page import write_report

    torch.set_num_threads(1)  # the same numbers wherever it runs
    run_study(config, run)
    write_report(run.path)
    run.say(f"report: {run.path / REPORT}")


COMMAND = run_command(
    name="toy",
    summary="optimise free logits against a random reference, as in the paper's figures 1 and 2",
    example="bleugrad toy --orders 2 --seeds 3 --method exact --output runs/toy-exact",
    config_type=ToyConfig,
    work=work,
)
