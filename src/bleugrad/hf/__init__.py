"""Expected BLEU in the trainers of Hugging Face: ``Trainer``, ``Seq2SeqTrainer`` and TRL.

Names are resolved on first use. The error of a missing library has the command that installs it.
"""

from typing import TYPE_CHECKING

from bleugrad.extras import resolver

if TYPE_CHECKING:
    from bleugrad.hf.callbacks import BLEUMonitor as BLEUMonitor
    from bleugrad.hf.callbacks import BLEUSchedule as BLEUSchedule
    from bleugrad.hf.collator import BLEUCollator as BLEUCollator
    from bleugrad.hf.collator import encode_completion as encode_completion
    from bleugrad.hf.counting import SentenceMean as SentenceMean
    from bleugrad.hf.grpo import TokenGRPOTrainer as TokenGRPOTrainer
    from bleugrad.hf.loss import BLEULoss as BLEULoss
    from bleugrad.hf.metrics import BLEUMetrics as BLEUMetrics
    from bleugrad.hf.metrics import BLEUReward as BLEUReward
    from bleugrad.hf.metrics import bleu_reward as bleu_reward
    from bleugrad.hf.rewards import ScoreReward as ScoreReward
    from bleugrad.hf.sft import BLEUSFTTrainer as BLEUSFTTrainer

_HOMES = {
    "BLEUCollator": ("bleugrad.hf.collator", "hf", ("transformers",)),
    "BLEULoss": ("bleugrad.hf.loss", "hf", ("transformers",)),
    "BLEUMetrics": ("bleugrad.hf.metrics", "hf", ("sacrebleu",)),
    "BLEUMonitor": ("bleugrad.hf.callbacks", "hf", ("transformers", "accelerate")),
    "BLEUReward": ("bleugrad.hf.metrics", "hf", ("sacrebleu",)),
    "BLEUSFTTrainer": ("bleugrad.hf.sft", "trl", ("transformers", "trl")),
    "BLEUSchedule": ("bleugrad.hf.callbacks", "hf", ("transformers", "accelerate")),
    "ScoreReward": ("bleugrad.hf.rewards", "hf", ("transformers",)),
    "SentenceMean": ("bleugrad.hf.counting", "hf", ("transformers", "accelerate")),
    "TokenGRPOTrainer": ("bleugrad.hf.grpo", "trl", ("transformers", "trl")),
    "bleu_reward": ("bleugrad.hf.metrics", "hf", ("sacrebleu",)),
    "encode_completion": ("bleugrad.hf.collator", "hf", ("transformers",)),
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = resolver("bleugrad.hf", _HOMES)
