"""Expected BLEU as the ``compute_loss_func`` of a Hugging Face trainer."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from bleugrad.core.arguments import check_choice, check_nonnegative
from bleugrad.core.pooling import Pool
from bleugrad.hf.counting import IGNORED, mean_over_processes, predicted_labels, process_group
from bleugrad.hf.criterion import WEIGHTINGS, BlendedParts, LinearParts, LogitParts
from bleugrad.hf.forward import ForwardWatch, Seen
from bleugrad.hf.vocabulary import EOS_ROLES, excluded_ids, length_eos, word_starts
from bleugrad.losses.distributed import ProcessPool


class BLEULoss:
    """1 - expected BLEU for ``Trainer(compute_loss_func=...)``, blended with cross-entropy where wanted.

    For encoder-decoder models (T5, BART, Marian, mBART, NLLB, ...) and causal ones, whose labels it shifts. The batch
    must hold ``labels`` with -100 where nothing counts, and for encoder-decoder models ``decoder_input_ids``, as
    :class:`bleugrad.hf.BLEUCollator` makes them: the trainer takes the labels away before the forward pass, and BART
    then decodes from the source without an error. So the loss looks at what the model was given and raises where that
    is not the labels, one position later.

    **Scaling.** A step's loss is the mean over all its micro-batches and processes:

    * ``level="sentence", weighting="tokens"``: of the sentences' losses, each weighted by its number of labels. Equal
      to one big batch in value and gradient.
    * ``level="sentence", weighting="sentences"``: the plain mean over sentences, also equal to one big batch. With
      gradient accumulation the trainer must be a :class:`bleugrad.hf.SentenceMean`.
    * ``level="corpus"``: BLEU of the statistics pooled over the processes, equal to one big batch. Accumulated
      micro-batches stay corpora of their own, and the loss is their mean, weighted by labels: statistics cannot be
      pooled over passes that do not exist at the same time.

    The cross-entropy part is that of the trainer: the mean over labels (``weighting="sentences"``: over sentences, of
    their means).

    Args:
        model: the model that is trained. It gets two hooks, and is not changed otherwise.
        tokenizer: of the targets: it tells the special tokens, and with ``words`` which tokens open a word.
        level: "sentence" or "corpus".
        weighting: "tokens" or "sentences".
        words: whether to count words, as :func:`bleugrad.word_start_mask` reads them from the tokenizer, or tokens.
        eos: what the end of the sentence is. "length": the hypothesis ends before its first EOS, so that lengths are
            random and the model learns to stop; "token": a token to match, like any other; "exclude": not looked at, so
            that only cross-entropy would teach the model to stop.
        special_tokens: "exclude" leaves the tokenizer's other special tokens (language codes, padding, sentinels, but
            not the unknown token) out of BLEU, "include" counts them; or the ids to leave out.
        bleu_weight: share of BLEU in the loss, 0 to 1; the rest is cross-entropy. :class:`bleugrad.hf.BLEUSchedule`
            changes it while training.
        fused: leave the model's output projection to the loss, in chunks: training then never holds (B, T, V) logits.
        method: "exact" or "bound".
        max_order: highest n-gram order.
        weights: of the orders, uniform by default.
        smoothing: added to matches and totals of every order.
        check_decoder_inputs: whether decoder inputs must be the labels, one position later. Turn it off for training
            that changes them on purpose.

    Several references: a ``references`` entry of the batch, (B, K, R) ids padded with -100, replaces the labels as what
    BLEU is measured against. The labels are still what the decoder is fed, and what cross-entropy learns.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        level: str = "sentence",
        weighting: str = "tokens",
        words: bool = False,
        eos: str = "length",
        special_tokens: str | Iterable[int] = "exclude",
        bleu_weight: float = 1.0,
        fused: bool = False,
        method: str = "exact",
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        check_decoder_inputs: bool = True,
    ) -> None:
        check_choice("weighting", weighting, WEIGHTINGS)
        check_choice("eos", eos, EOS_ROLES)
        if level == "corpus" and weighting == "sentences":
            raise ValueError("weighting is 'sentences', but level is 'corpus', which has no sentences to weight")
        self.causal = not model.config.is_encoder_decoder
        self.check_decoder_inputs = check_decoder_inputs
        self.vocabulary = model.get_output_embeddings().weight.shape[0]
        self.criterion: BlendedParts = (LinearParts if fused else LogitParts)(
            method=method,
            max_order=max_order,
            weights=weights,
            smoothing=smoothing,
            level=level,
            eos_id=length_eos(tokenizer, eos),
            ignore_index=IGNORED,
            reduction="none",
            word_start=word_starts(tokenizer, self.vocabulary) if words else None,
        )
        self.criterion.configure(excluded_ids(tokenizer, eos, special_tokens), weighting)
        self.logit_criterion = LogitParts(**_same_options(self.criterion)) if fused else self.criterion
        self.logit_criterion.configure(self.criterion.excluded, weighting)
        self.bleu_weight = bleu_weight
        self.watch = ForwardWatch(model, fused)

    @property
    def bleu_weight(self) -> float:
        """Share of BLEU in the loss, 0 to 1."""
        return self.criterion.blend

    @bleu_weight.setter
    def bleu_weight(self, share: float) -> None:
        if check_nonnegative("bleu_weight", share) > 1:
            raise ValueError(f"bleu_weight is {share}; expected 0 (cross-entropy) to 1 (expected BLEU)")
        self.criterion.blend = self.logit_criterion.blend = float(share)

    def __repr__(self) -> str:
        kind = "causal" if self.causal else "encoder-decoder"
        return (
            f"BLEULoss({kind}, bleu_weight={self.bleu_weight}, weighting={self.criterion.weighting!r}, "
            f"{self.criterion.extra_repr()})"
        )

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The loss of a micro-batch: its part of the step's loss.

        Args:
            outputs: of the model, with ``logits``.
            labels: (B, T), -100 where nothing counts.
            num_items_in_batch: what the trainer has counted over the step's micro-batches and processes. None takes
                this micro-batch for all of it.
        """
        seen = self.watch.take()
        rows = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        self._check(rows, labels, seen)
        assert labels is not None
        labels = labels.to(rows.device)
        target = predicted_labels(labels, self.causal)
        if self.causal:
            rows = rows[:, :-1]
        parts = self._parts(rows, target, seen)
        return self._scaled(parts, target, num_items_in_batch)

    def _parts(self, rows: Tensor, labels: Tensor, seen: Seen) -> Tensor:
        criterion = self.logit_criterion if seen.projected else self.criterion
        group = process_group()
        criterion.pool = Pool() if group is None else ProcessPool(group)
        if isinstance(criterion, LinearParts):
            weight, bias = self.watch.projection(rows.dtype)
            parts: Tensor = criterion(rows, weight, labels, bias, references=seen.references)
        else:
            parts = criterion(rows, labels, references=seen.references)
        return parts

    def _scaled(self, parts: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """Parts of this micro-batch over the step's count.

        The trainer's count is either that of all processes, and the trainer multiplies the loss by their number, or
        that of this process alone. In both cases gradients are averaged over processes, so dividing by the mean of the
        counts is right.
        """
        labelled = labels != IGNORED
        by_sentence = self.criterion.weighting == "sentences"
        own = (labelled.any(1) if by_sentence else labelled).sum().to(parts.dtype)
        counted = own if num_items_in_batch is None else _as_count(num_items_in_batch, parts)
        tokens = labelled.sum().to(parts.dtype)
        own, counted, tokens = mean_over_processes(torch.stack([own, counted, tokens]))
        if by_sentence and num_items_in_batch is not None and not hasattr(num_items_in_batch, "counts_sentences"):
            counted = own * _processes_counted(counted, tokens)
        counted = counted.clamp(min=1 / _world())
        bleu, nll = parts / counted
        if self.criterion.options.level == "corpus":
            bleu = bleu * own
        return torch.add(self.bleu_weight * bleu, nll, alpha=1 - self.bleu_weight)

    def _check(self, rows: Tensor, labels: Tensor | None, seen: Seen) -> None:
        if labels is None:
            raise ValueError("labels is None; expected a batch with labels, -100 where nothing counts")
        if rows.dim() != 3 or rows.shape[:2] != labels.shape:
            raise ValueError(
                f"logits have shape {tuple(rows.shape)} and labels {tuple(labels.shape)}; expected a row of logits for "
                "each label. Was the batch made without decoder_input_ids? bleugrad.hf.BLEUCollator makes them"
            )
        if seen.packed:
            raise ValueError(
                "a row of the batch holds several sequences; expected no packing, and no padding-free batches"
            )
        if not self.causal and self.check_decoder_inputs:
            _check_decoder_inputs(seen.decoder_inputs, labels)


def _check_decoder_inputs(inputs: Tensor | None, labels: Tensor) -> None:
    if inputs is None:
        raise ValueError(
            "the batch has no decoder_input_ids, and the trainer takes the labels away before the forward pass, so the "
            "model has decoded something else; expected data_collator=bleugrad.hf.BLEUCollator(tokenizer, model)"
        )
    before = labels[:, :-1].to(inputs.device)
    wrong = (before != IGNORED) & (inputs[:, 1:] != before)
    if inputs.shape != labels.shape or wrong.any():
        raise ValueError(
            "decoder_input_ids are not the labels, one position later; expected what bleugrad.hf.BLEUCollator makes, "
            "or check_decoder_inputs=False if they are changed on purpose"
        )


def _processes_counted(counted: Tensor, tokens: Tensor) -> Tensor:
    """How many processes' labels the trainer has counted, if the step is one micro-batch a process; else an error."""
    ratio = counted / tokens.clamp(min=1 / _world())
    if tokens > 0 and not ((ratio - 1).abs() < 1e-6 or (ratio - _world()).abs() < 1e-6):
        raise ValueError(
            "weighting is 'sentences', and the trainer accumulates gradients but counts labels; expected a trainer "
            "class with bleugrad.hf.SentenceMean before it, or weighting='tokens'"
        )
    return ratio.round()


def _as_count(number: Tensor | int, like: Tensor) -> Tensor:
    count = torch.as_tensor(number, device=like.device).to(like.dtype)
    if count.numel() != 1:
        raise ValueError(
            "num_items_in_batch has several entries, as with several devices in one process; expected one process a "
            "device: start the script with torchrun"
        )
    return count.reshape(())


def _world() -> int:
    group = process_group()
    return 1 if group is None else torch.distributed.get_world_size(group)


def _same_options(criterion: BlendedParts) -> dict[str, Any]:
    options = criterion.options
    return {
        "method": options.method,
        "max_order": options.max_order,
        "weights": options.weights,
        "smoothing": options.smoothing,
        "level": options.level,
        "eos_id": criterion.eos_id,
        "ignore_index": criterion.ignore_index,
        "reduction": criterion.reduction,
        "word_start": criterion.word_start,
    }
