"""Expected BLEU as the ``compute_loss_func`` of a Hugging Face trainer."""

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bleugrad.arguments import check_choice, check_share
from bleugrad.distributed import ProcessPool
from bleugrad.expectation import Expectation
from bleugrad.hf import checks
from bleugrad.hf.counting import IGNORED, SentenceCount, mean_over_processes, predicted_labels, processes
from bleugrad.hf.criterion import BlendedParts
from bleugrad.hf.forward import NO_DECODER_INPUTS, ForwardInputs, ForwardWatch
from bleugrad.hf.vocabulary import EOS_ROLES, excluded_ids, length_eos, word_starts
from bleugrad.losses import recipe
from bleugrad.outputs.rows import Projection
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.score import Score

NO_SENTENCES_COUNTED = (
    "weighting is 'sentences', and the trainer accumulates gradients but counts labels; expected a trainer class with "
    "bleugrad.hf.SentenceMean before it, or weighting='tokens'"
)
ACCUMULATED_CORPUS = (
    "level is 'corpus' and the trainer accumulates gradients, so each micro-batch is a corpus of its own; use a larger "
    "batch without accumulation, or level='sentence'"
)


class BLEULoss:
    """1 - expected BLEU for ``Trainer(compute_loss_func=...)``, with as much cross-entropy as the model needs.

    The defaults are the recommended recipe, :mod:`bleugrad.losses.recipe`. The loss serves encoder-decoder models (T5,
    BART, Marian, mBART, NLLB, ...) and causal models, whose labels it shifts. Labels are -100 where nothing is learnt.
    Batches of encoder-decoder models need ``decoder_input_ids``, as :class:`bleugrad.hf.BLEUCollator` makes them: the
    trainer removes the labels before the forward pass, and BART then decodes from the source without an error.

    If the batch has ``references``, (B, K, R) ids padded with -100, they replace the labels as the references of BLEU.
    The decoder is still fed the labels, and cross-entropy still learns them.

    The loss of a step is a mean over all its micro-batches and processes. :class:`bleugrad.hf.BLEUMonitor` adds
    :meth:`measurements` to the log, and checks settings of the trainer that the loss cannot see.

    Args:
        model: the model that is trained. It gets hooks, which are removed with the loss or by the next loss for the
            same model.
        tokenizer: the tokenizer of the targets. It defines the special tokens and, with ``words``, the words.
        level: "sentence" is the mean of the sentences' losses, equal to that of one big batch. "corpus" is BLEU of the
            statistics pooled over the processes; accumulated micro-batches are corpora of their own, weighted by
            labels.
        weighting: "tokens" weights sentences by their numbers of labels. "sentences" is the plain mean, also of the
            sentences' cross-entropy; gradient accumulation then needs a :class:`bleugrad.hf.SentenceMean` trainer.
        words: count words, as :func:`bleugrad.word_start_mask` reads them from the tokenizer, instead of tokens. None
            counts words if the tokenizer marks where they begin.
        eos: role of the end of the sentence. "length": the hypothesis ends before its first EOS, so its length is
            random; "token": EOS is a token to match, like any other; "exclude": BLEU ignores it, and only cross-entropy
            teaches the model to stop.
        end_positions: with ``eos="length"``, the cost of not ending in time: this many tokens that match nothing, or
            "half" as many as the reference has. None for the recommended number.
        sharpness: scores distributions proportional to p ^ sharpness.
        special_tokens: "exclude" leaves the tokenizer's other special tokens (language codes, padding, sentinels, but
            not the unknown token) out of BLEU, "include" counts them; or the ids to leave out.
        bleu_weight: share of BLEU in the loss, 0 to 1; the rest is cross-entropy. :class:`bleugrad.hf.BLEUSchedule`
            changes it during training.
        adaptive: the loss of a sentence is cross-entropy plus ``bleu_weight`` times
            :func:`bleugrad.losses.recipe.bleu_weight` times 1 - expected BLEU. The function is near 0 where the model
            predicts the labels badly. With False the loss is a blend with fixed weights.
        label_smoothing: of the cross-entropy, 0 to 1. Trainers do not pass their ``label_smoothing_factor`` on.
        score: what is expected instead of BLEU: :class:`bleugrad.ROUGE`, :class:`bleugrad.GLEU`, :class:`bleugrad.NIST`
            or another :class:`~bleugrad.scores.score.Score`; then "BLEU" above means this score. ``max_order``,
            ``weights`` and ``smoothing`` are those of BLEU and are refused beside it.
        fused: compute the model's output projection in the loss, in chunks: training then holds no (B, T, V) logits.
        method, max_order, weights, smoothing: as for :class:`bleugrad.ExpectedBLEULoss`.
        check_decoder_inputs: require that decoder inputs are the labels, shifted by one position. Turn it off for other
            inputs.
        check: raise a ``ValueError`` for a mistake in the first batch (labels without EOS, padding ids in the labels,
            ...) and for settings of the trainer without an effect, instead of a warning.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        level: str = recipe.LEVEL,
        weighting: str = "tokens",
        words: bool | None = None,
        eos: str = "length",
        end_positions: int | str | None = None,
        sharpness: float = recipe.SHARPNESS,
        special_tokens: str | Iterable[int] = "exclude",
        bleu_weight: float = 1.0,
        adaptive: bool = True,
        label_smoothing: float = 0.0,
        score: Score | None = None,
        fused: bool = False,
        method: str = "exact",
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        check_decoder_inputs: bool = True,
        check: bool = False,
    ) -> None:
        check_choice("eos", eos, EOS_ROLES)
        if level == "corpus" and weighting == "sentences":
            raise ValueError("weighting is 'sentences', but level is 'corpus', which has no sentences to weight")
        self.causal = not model.config.is_encoder_decoder
        self.check_decoder_inputs = check_decoder_inputs and not self.causal
        self.check = check
        self.pad_id, self.eos_id = tokenizer.pad_token_id, tokenizer.eos_token_id
        self._first, self._accumulates = True, False
        self._measured: Tensor | None = None
        if end_positions is None:
            end_positions = recipe.END_POSITIONS if eos == "length" else 0
        if score is None:
            score = BLEU(max_order, weights, smoothing)
        elif (max_order, weights, smoothing) != (4, None, 1.0):
            found = f"score is {score!r} beside max_order, weights or smoothing, which are options of BLEU"
            raise ValueError(f"{found}; expected them in the score: bleugrad.BLEU(max_order, weights, smoothing)")
        self.criterion = BlendedParts(
            Expectation(score, method, level, length_eos(tokenizer, eos), IGNORED, sharpness, end_positions),
            excluded=excluded_ids(tokenizer, eos, special_tokens),
            weighting=weighting,
            word_start=word_starts(tokenizer, model.get_output_embeddings().weight.shape[0], words),
            adaptive=adaptive,
            label_smoothing=label_smoothing,
        )
        self.bleu_weight = bleu_weight
        self.watch = ForwardWatch(model, fused, self.check_decoder_inputs)

    @property
    def bleu_weight(self) -> float:
        """Share of BLEU in the loss, 0 to 1."""
        return self.criterion.blend

    @bleu_weight.setter
    def bleu_weight(self, share: float) -> None:
        self.criterion.blend = check_share("bleu_weight", share)

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The loss of a micro-batch with labels (B, T): its part of the step's loss.

        ``num_items_in_batch`` is the trainer's count over the micro-batches and processes of the step, or None if this
        micro-batch is the whole step.
        """
        inputs = self.watch.take()
        rows = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        if labels is None:
            raise ValueError("labels is None; expected a batch with labels, -100 where nothing is learnt")
        self._check_shapes(rows, labels, inputs)
        labels = labels.to(rows.device)
        if self._first:
            self._first = False
            self._check_first_batch(rows.detach(), labels, inputs)
        target = predicted_labels(labels, self.causal)
        if self.causal:
            rows = rows[:, :-1]
        return self._scaled(self._parts(rows, target, inputs), target, num_items_in_batch)

    def measurements(self) -> dict[str, float]:
        """Means over all labels since the last call, of all processes, for the log. All processes must call."""
        if self._measured is None:
            return {}
        labels, nll, expected, length, *scores = mean_over_processes(self._measured).tolist()
        self._measured = None
        found = {"cross_entropy": nll / max(labels, 1e-9)}
        if self.bleu_weight > 0:
            name = "expected_bleu" if isinstance(self.criterion.expectation.score, BLEU) else "expected_score"
            names = (name, f"{name}_low", f"{name}_high")
            means = {name: score / max(labels, 1e-9) for name, score in zip(names, scores, strict=True)}
            found |= {name: mean for name, mean in means.items() if not math.isnan(mean)}
        if length > 0:
            found["length_ratio"] = expected / length
        return found

    def report(self, *mistakes: str | None) -> None:
        """Warn of each mistake, or raise the first one as a ``ValueError`` with ``check=True``."""
        for message in filter(None, mistakes):
            if self.check:
                raise ValueError(message)
            warnings.warn(message, stacklevel=3)

    def _output(self, rows: Tensor, inputs: ForwardInputs) -> Tensor | Projection:
        """Logits as they are, and hidden states with the projection that was left out."""
        return rows if inputs.projected else Projection(rows, *self.watch.projection(rows.dtype))

    def _parts(self, rows: Tensor, labels: Tensor, inputs: ForwardInputs) -> Tensor:
        criterion, group = self.criterion, dist.group.WORLD if processes() > 1 else None
        criterion.pool = None if group is None else ProcessPool(group)
        parts = criterion(self._output(rows, inputs), labels, inputs.references)
        if parts.requires_grad and criterion.measured is not None:
            self._measured = criterion.measured + (0 if self._measured is None else self._measured)
        return parts

    def _check_first_batch(self, rows: Tensor, labels: Tensor, inputs: ForwardInputs) -> None:
        logits, some = checks.sampled(rows, labels)
        if not inputs.projected:
            weight, bias = self.watch.projection(rows.dtype)
            logits = torch.nn.functional.linear(logits, weight.detach(), bias)
        target, criterion = predicted_labels(labels, self.causal), self.criterion
        self.report(
            checks.ignored_labels(target),
            checks.padded_labels(target, self.pad_id, self.eos_id),
            checks.missing_ends(target, criterion.expectation.eos_id),
            checks.probabilities(logits),
            checks.wrong_shift(logits, some) if self.causal else None,
            checks.nothing_to_smooth(criterion.label_smoothing, criterion.adaptive or self.bleu_weight < 1),
        )

    def _scaled(self, parts: Tensor, labels: Tensor, number: Tensor | int | None) -> Tensor:
        """The parts of this micro-batch, divided by the step's count.

        The trainer counts either over all processes, and multiplies the loss by their number, or over this process
        alone. In both cases gradients are averaged over processes, so the divisor is the mean of the counts.
        """
        labelled, by_sentence = labels != IGNORED, self.criterion.weighting == "sentences"
        corpus, sentences_counted = self.criterion.expectation.level == "corpus", isinstance(number, SentenceCount)
        if sentences_counted and not by_sentence:
            raise ValueError("the trainer is a SentenceMean, but weighting is 'tokens'; use weighting='sentences'")
        tokens = labelled.sum().to(parts.dtype)
        own = labelled.any(1).sum().to(parts.dtype) if by_sentence else tokens
        counted = own if number is None else _as_count(number, parts)
        own, counted, tokens = mean_over_processes(torch.stack([own, counted, tokens]))
        if number is not None and not sentences_counted and (by_sentence or (corpus and not self._accumulates)):
            ratio = counted / tokens.clamp(min=1 / processes())  # 1, or the number of processes, or accumulated
            self._accumulates = bool(tokens > 0) and min(abs(ratio - 1), abs(ratio - processes())) > 1e-6
            if self._accumulates and by_sentence:
                raise ValueError(NO_SENTENCES_COUNTED)
            if self._accumulates:
                self.report(ACCUMULATED_CORPUS)
            counted = own * ratio.round() if by_sentence else counted
        bleu, nll = parts / counted.clamp(min=1 / processes())
        return torch.add(bleu * own if corpus else bleu, nll)

    def _check_shapes(self, rows: Tensor, labels: Tensor, inputs: ForwardInputs) -> None:
        if rows.dim() != 3 or rows.shape[:2] != labels.shape:
            raise ValueError(
                f"logits have shape {tuple(rows.shape)} and labels {tuple(labels.shape)}; expected a row of logits for "
                "each label. Was the batch made without decoder_input_ids? bleugrad.hf.BLEUCollator makes them"
            )
        if inputs.packed:
            raise ValueError(
                "a row of the batch holds several sequences; expected no packing, and no padding-free batches"
            )
        if not self.check_decoder_inputs:
            return
        if (fed := inputs.decoder_inputs) is None:
            raise ValueError(NO_DECODER_INPUTS)
        before = labels[:, :-1].to(fed.device)
        if fed.shape != labels.shape or ((before != IGNORED) & (fed[:, 1:] != before)).any():
            raise ValueError(
                "decoder_input_ids are not the labels shifted right by one position; use bleugrad.hf.BLEUCollator, or "
                "check_decoder_inputs=False if they are changed on purpose"
            )


def _as_count(number: Tensor | int, like: Tensor) -> Tensor:
    count = torch.as_tensor(number, device=like.device).to(like.dtype)
    if count.numel() != 1:
        raise ValueError(
            "num_items_in_batch has several entries, as with several devices in one process; expected one process per "
            "device: start the script with torchrun"
        )
    return count.reshape(())
