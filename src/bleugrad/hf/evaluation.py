"""The metrics of :mod:`bleugrad.metrics` as a callback of the trainer."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import TrainerCallback

from bleugrad.hf.counting import IGNORED, predicted_labels, processes
from bleugrad.hf.vocabulary import excluded_ids, length_eos, without, word_starts
from bleugrad.metrics.expected import ExpectedBLEU
from bleugrad.metrics.tokens import TokenBLEU

NAMES = {"lower": "expected_bleu_low", "upper": "expected_bleu_high", "length_ratio": "expected_length_ratio"}


class BLEUEvaluation(TrainerCallback):
    """Adds expected BLEU, its certified interval and BLEU of generated token ids to each evaluation of the trainer.

    ======================================  ======================================================================
    ``eval_expected_bleu``                  mean expected BLEU of the sentences, 0..1; the decoder is fed the labels
    ``eval_expected_bleu_low``, ``_high``   certified interval of its true value
    ``eval_expected_length_ratio``          expected length over the length of the labels
    ``eval_token_bleu``                     corpus BLEU of generated token ids, 0..1, equal to sacreBLEU's
    ======================================  ======================================================================

    The values are in the log and in the result of ``trainer.evaluate()``. ``metric_for_best_model="expected_bleu"``
    selects checkpoints by them. Reporters of ``report_to`` see them if they are added again, as for
    :class:`bleugrad.hf.BLEUMonitor`. The values do not depend on the batch size or the number of processes.

    The callback works with any loss. It runs the model once more on the evaluation data, and generates by greedy search
    unless ``generate`` is False. If the data has ``references``, they replace the labels.

    Args:
        tokenizer: the tokenizer of the targets. It defines EOS, the special tokens, which do not count, and the words.
        words: count words instead of tokens, as in :class:`bleugrad.hf.BLEULoss`.
        generate: compute ``eval_token_bleu``. Default: True for encoder-decoder models. It is not available for causal
            models.

    Example::

        trainer = Seq2SeqTrainer(..., callbacks=[BLEUEvaluation(tokenizer)])
        trainer.evaluate()["eval_expected_bleu"]
    """

    def __init__(self, tokenizer: Any, *, words: bool | None = None, generate: bool | None = None) -> None:
        self.tokenizer, self.words, self.generate = tokenizer, words, generate
        self.eos_id = length_eos(tokenizer, "length")
        self.excluded = excluded_ids(tokenizer, "length", "exclude")

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, float] | None = None,
        model: Any = None,
        eval_dataloader: Any = None,
        **_: Any,
    ) -> None:
        """Complete the entry of an evaluation."""
        logs = {} if logs is None else logs
        prefixes = [name.removesuffix("_runtime") for name in logs if name.endswith("_runtime")]
        if prefixes in ([], ["train"]):
            return
        found = {f"{prefixes[0]}_{name}": value for name, value in self.measure(model, eval_dataloader, args).items()}
        logs.update(found)
        state.log_history[-1].update(found)

    @torch.no_grad()
    def measure(self, model: Any, loader: Any, args: Any) -> dict[str, float]:
        """The values of a model on the data of a loader, pooled over the processes."""
        causal = not model.config.is_encoder_decoder
        if causal and self.generate:
            raise ValueError("generate is True, but the model is causal; expected an encoder-decoder model or False")
        starts = word_starts(self.tokenizer, model.get_output_embeddings().weight.shape[0], self.words)
        expected = ExpectedBLEU(eos_id=self.eos_id, word_start=starts).to(args.device)
        tokens = TokenBLEU(eos_id=self.eos_id, word_start=starts).to(args.device)
        was_training = model.training
        model.eval()
        for batch, counts in _batches(loader, args):
            references = batch.pop("references", None)
            labels = predicted_labels(batch["labels"], causal)
            logits = model(**batch).logits
            made = None if causal or self.generate is False else self._generated(model, batch, args)
            if not counts:
                continue
            kept = without(labels, self.excluded)
            target = kept if references is None else without(references, self.excluded)
            expected.update(logits[:, :-1] if causal else logits, target, mask=kept != IGNORED)
            if made is not None:
                tokens.update(without(made, self.excluded), target)
        model.train(was_training)
        found = {NAMES.get(name, name): value.item() for name, value in expected.compute().items()}
        if not causal and self.generate is not False:
            found["token_bleu"] = tokens.compute().item()
        return found

    def _generated(self, model: Any, batch: dict[str, Tensor], args: Any) -> Tensor:
        limit = getattr(args, "generation_max_length", None)
        options = {} if limit is None else {"max_length": limit}
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
        made: Tensor = model.generate(**inputs, num_beams=1, do_sample=False, **options)
        return made[:, 1:]  # the first token starts the decoder


def _batches(loader: Any, args: Any) -> Iterator[tuple[dict[str, Tensor], bool]]:
    """The batches of this process, and whether they count: all processes run as many, as sharded models need it."""
    data, size = loader.dataset, args.eval_batch_size
    if not hasattr(data, "__len__"):
        raise TypeError(f"eval_dataset is a {type(data).__name__} without a length; expected a data set with one")
    world = processes()
    rank = dist.get_rank() if world > 1 else 0
    for start in range(0, len(data), size * world):
        own = range(start + rank, min(start + size * world, len(data)), world)
        batch = loader.collate_fn([data[index] for index in own or range(1)])
        yield {name: value.to(args.device) for name, value in batch.items()}, bool(own)
