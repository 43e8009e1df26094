"""Expected BLEU as the ``compute_loss_func`` of a Hugging Face trainer."""

import math
import warnings
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bleugrad.arguments import check_choice, check_share
from bleugrad.distributed import ProcessPool
from bleugrad.expectation import Expectation, score_output
from bleugrad.hf import checks
from bleugrad.hf.counting import IGNORED, SentenceCount, mean_over_processes, processes
from bleugrad.hf.forward import ForwardInputs, ForwardWatch
from bleugrad.hf.vocabulary import EOS_ROLES, excluded_ids, length_eos, without, word_starts
from bleugrad.losses import recipe
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.outputs.rows import Projection
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.interval import certified_interval
from bleugrad.scores.score import Score


class BLEULoss:
    """1 - expected BLEU for ``Trainer(compute_loss_func=...)``, with as much cross-entropy as the model needs.

    The defaults are the recommended recipe, :mod:`bleugrad.losses.recipe`. The loss serves encoder-decoder models and
    causal models, whose labels it shifts. Labels are -100 where nothing is learnt. Batches of encoder-decoder models
    need ``decoder_input_ids``, as :class:`bleugrad.hf.BLEUCollator` makes them.

    If the batch has ``references``, (B, K, R) ids padded with -100, they replace the labels as the references of BLEU.
    The decoder is still fed the labels, and cross-entropy still learns them.

    The loss of a step is a mean over all its micro-batches and processes, weighted by labels, or by sentences in a
    :class:`bleugrad.hf.SentenceMean` trainer.

    Args:
        model: the model that is trained. It gets hooks, which are removed with the loss or by the next loss for the
            same model.
        tokenizer: the tokenizer of the targets. It defines the special tokens and, with ``words``, the words.
        level: "sentence" is a mean over sentences. "corpus" is BLEU of a micro-batch, pooled over processes.
        words: count words, as :func:`bleugrad.word_start_mask` reads them from the tokenizer, instead of tokens. None
            counts words if the tokenizer marks where they begin.
        eos: "length": the hypothesis ends before its first EOS, so its length is random; "token": EOS is a token to
            match; "exclude": BLEU ignores it, and only cross-entropy teaches the model to stop.
        end_positions: with ``eos="length"``, the cost of not ending in time: this many tokens that match nothing. None
            for the recommended number.
        sharpness: scores distributions proportional to p ^ sharpness.
        special_tokens: "exclude" leaves the tokenizer's other special tokens, but not the unknown token, out of BLEU,
            "include" counts them; or the ids to leave out. Cross-entropy learns them in any case.
        bleu_weight: share of BLEU in the loss, 0 to 1; the rest is cross-entropy.
        adaptive: the share is ``bleu_weight`` times :func:`bleugrad.losses.recipe.bleu_share`, near 0 if the model
            predicts the labels badly.
        label_smoothing: of the cross-entropy, 0 to 1. Trainers do not pass their ``label_smoothing_factor`` on.
        score: :class:`bleugrad.BLEU`, or what is expected instead of it, such as :class:`bleugrad.ROUGE`.
        method: as for :class:`bleugrad.ExpectedBLEULoss`.
        fused: compute the model's output projection in the loss, in chunks: training then holds no (B, T, V) logits.
        check_decoder_inputs: require that decoder inputs are the labels, shifted by one position.
        check: raise a ``ValueError`` for a mistake in the first batch and for settings of the trainer without an
            effect, instead of a warning.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        level: str = recipe.LEVEL,
        words: bool | None = None,
        eos: str = "length",
        end_positions: int | None = None,
        sharpness: float = recipe.SHARPNESS,
        special_tokens: str | Iterable[int] = "exclude",
        bleu_weight: float = 1.0,
        adaptive: bool = True,
        label_smoothing: float = 0.0,
        score: Score = BLEU(),  # noqa: B008
        method: str = "exact",
        fused: bool = False,
        check_decoder_inputs: bool = True,
        check: bool = False,
    ) -> None:
        check_choice("eos", eos, EOS_ROLES)
        if end_positions is None:
            end_positions = recipe.END_POSITIONS if eos == "length" else 0
        eos_id = length_eos(tokenizer, eos)
        self.expectation = Expectation(score, method, level, eos_id, IGNORED, sharpness, end_positions)
        self.excluded = excluded_ids(tokenizer, eos, special_tokens)
        self.word_start = word_starts(tokenizer, model.get_output_embeddings().weight.shape[0], words)
        self.adaptive, self.label_smoothing = adaptive, check_share("label_smoothing", label_smoothing)
        self.bleu_weight = bleu_weight
        self.pad_id, self.eos_id = tokenizer.pad_token_id, tokenizer.eos_token_id
        self.causal, self.check = not model.config.is_encoder_decoder, check
        self._first = True
        self._measured: dict[str, Tensor] = {}
        self.watch = ForwardWatch(model, fused, check_decoder_inputs and not self.causal)

    @property
    def bleu_weight(self) -> float:
        """Share of BLEU in the loss, 0 to 1."""
        return self._bleu_weight

    @bleu_weight.setter
    def bleu_weight(self, share: float) -> None:
        self._bleu_weight = check_share("bleu_weight", share)

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The loss of a micro-batch with labels (B, T): its part of the step's loss.

        ``num_items_in_batch`` is the trainer's count over the micro-batches and processes of the step, or None if this
        micro-batch is the whole step.
        """
        inputs = self.watch.take()
        rows = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        if labels is None:
            raise ValueError("labels is None; expected a batch with labels, -100 where nothing is learnt")
        self.watch.check(inputs, rows, labels)
        labels = labels.to(rows.device)
        if self._first:
            self._first = False
            self._check_first_batch(rows.detach(), labels, inputs)
        if self.causal:
            rows, labels = rows[:, :-1], labels[:, 1:]
        parts = self._parts(rows, labels, inputs, isinstance(num_items_in_batch, SentenceCount))
        return self._scaled(parts, labels != IGNORED, num_items_in_batch)

    def measurements(self) -> dict[str, float]:
        """Means over all labels since the last call, of all processes, for the log. All processes must call."""
        if not self._measured:
            return {}
        names, sums = list(self._measured), mean_over_processes(torch.stack(list(self._measured.values()))).tolist()
        self._measured = {}
        found = zip(names, sums, strict=True)
        return {name: total / weight for name, (total, weight) in found if weight > 0 and not math.isnan(total)}

    def report(self, *mistakes: str | None) -> None:
        """Warn of each mistake, or raise the first one as a ``ValueError`` with ``check=True``."""
        for message in filter(None, mistakes):
            if self.check:
                raise ValueError(message)
            warnings.warn(message, stacklevel=3)

    def _check_first_batch(self, rows: Tensor, labels: Tensor, inputs: ForwardInputs) -> None:
        rows, some = checks.sampled(rows, labels)
        if not inputs.projected:
            weight, bias = self.watch.projection(rows.dtype)
            rows = torch.nn.functional.linear(rows, weight.detach(), bias)
        target = labels[:, 1:] if self.causal else labels
        self.report(
            checks.ignored_labels(target),
            checks.padded_labels(target, self.pad_id, self.eos_id),
            checks.missing_ends(target, self.expectation.eos_id),
            checks.wrong_shift(rows, some) if self.causal else None,
            checks.nothing_to_smooth(self.label_smoothing, self.adaptive or self.bleu_weight < 1),
        )

    def _parts(self, rows: Tensor, labels: Tensor, inputs: ForwardInputs, by_sentence: bool) -> Tensor:
        """Sums over the micro-batch that are divided by the trainer's count, (2,): of BLEU and of cross-entropy.

        At sentence level they are sums over sentences of ``1 - BLEU`` and of the mean cross-entropy, each times the
        sentence's number of labels unless the trainer counts sentences. At corpus level the first is ``1 - BLEU`` of
        the whole batch, not multiplied by anything. Both have their weights in the loss.
        """
        labelled, mask = labels != IGNORED, without(labels, self.excluded) != IGNORED
        references, level = inputs.references, self.expectation.level
        group = dist.group.WORLD if processes() > 1 else None
        pool = None if group is None else ProcessPool(group)
        value, statistics, _ = score_output(
            rows if inputs.projected else Projection(rows, *self.watch.projection(rows.dtype)),
            self.expectation,
            labels=labels,
            references=None if references is None else without(references.to(labels.device), self.excluded),
            mask=mask,
            word_start=self.word_start,
            label_log_probs=True,
            pool=pool,
        )
        log_probs = statistics.label_log_probs
        assert log_probs is not None
        counts, share = labelled.sum(1).to(value.dtype), torch.full_like(value, self.bleu_weight).detach()
        if self.adaptive:
            share = share * recipe.adaptive_share(log_probs, labelled, level, pool)
        bleu = share * (1 - value)
        if level == "sentence":
            bleu = (torch.where(mask.any(1), bleu, 0) * (1 if by_sentence else counts)).sum()
        if torch.is_grad_enabled():
            self._measure(value, torch.where(labelled, -log_probs, 0).sum(), counts, statistics)
        if self.bleu_weight == 1 and not self.adaptive:
            return torch.stack([bleu, torch.zeros_like(bleu)])  # 0 times inf is not 0
        log_probs = recipe.smoothed_log_probs(log_probs, statistics.mean_log_probs, self.label_smoothing)
        nll = (1 - share) * torch.where(labelled, -log_probs, 0).sum(1)
        return torch.stack([bleu, (nll / counts.clamp(min=1) if by_sentence else nll).sum()])

    @torch.no_grad()
    def _measure(self, value: Tensor, nll: Tensor, counts: Tensor, statistics: ExpectedStatistics) -> None:
        """Add to the sums behind :meth:`measurements`, each with its weight; NaN without a certified interval."""
        score, labels = self.expectation.score, counts.sum()
        found = {"cross_entropy": (nll, labels)}
        if self.bleu_weight > 0:
            sentence = self.expectation.level == "sentence"
            ends = certified_interval(statistics, score) if isinstance(score, BLEU) and sentence else (None, None)
            name = "expected_bleu" if isinstance(score, BLEU) else "expected_score"
            for key, one in zip((name, f"{name}_low", f"{name}_high"), (value, *ends), strict=True):
                found[key] = (torch.full_like(nll, torch.nan) if one is None else (one * counts).sum(), labels)
        if self.expectation.eos_id is not None:
            lengths = statistics.references.lengths[:, 0].sum()
            found["length_ratio"] = (statistics.lengths.mean().sum(), lengths.to(nll.dtype))
        for key, pair in found.items():
            self._measured[key] = self._measured.get(key, 0) + torch.stack(pair)

    def _scaled(self, parts: Tensor, labelled: Tensor, number: Tensor | int | None) -> Tensor:
        """The parts of this micro-batch, divided by the step's count.

        The trainer counts either over all processes, and multiplies the loss by their number, or over this process
        alone. In both cases gradients are averaged over processes, so the divisor is the mean of the counts.
        """
        own = (labelled.any(1) if isinstance(number, SentenceCount) else labelled).sum().to(parts.dtype)
        counted = own if number is None else _as_count(number, parts)
        own, counted = mean_over_processes(torch.stack([own, counted]))
        bleu, nll = parts / counted.clamp(min=1 / processes())
        return torch.add(bleu * own if self.expectation.level == "corpus" else bleu, nll)


def _as_count(number: Tensor | int, like: Tensor) -> Tensor:
    count = torch.as_tensor(number, device=like.device).to(like.dtype)
    if count.numel() != 1:
        raise ValueError(
            "num_items_in_batch has several entries, as with several devices in one process; expected one process per "
            "device: start the script with torchrun"
        )
    return count.reshape(())
