"""Translations of many sentences, in batches of similar length, shared between the processes."""

import math
from collections.abc import Sequence

import torch

from bleugrad.lab.data.batches import BatchPlan, shard
from bleugrad.lab.data.encoding import EncodedSplit
from bleugrad.lab.models.one_pass import FrameModel, OnePassModel
from bleugrad.lab.models.protocol import AutoregressiveModel, TranslationModel
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.search.consensus import consensus
from bleugrad.lab.models.search.hypothesis import Hypothesis
from bleugrad.lab.training.config import EvaluationConfig
from bleugrad.lab.training.processes import SingleProcess

NOTHING = Hypothesis([], 0.0, 0.0)


def translate_ids(
    model: TranslationModel,
    sources: Sequence[list[int]],
    config: EvaluationConfig,
    processes: SingleProcess,
    *,
    width: int = 1,
    n_best: int = 1,
    search: str = "beam",
    word_start: torch.Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of each source, in order. Each process translates its share, and gets all of them.

    ``sources`` are ids without EOS; the translation of an empty source is empty. A ``width`` of 1 is greedy search.
    With the ``search`` "mbr" there is one hypothesis, see :func:`bleugrad.lab.models.search.consensus.consensus`.
    """
    nothing: list[list[int]] = [[] for _ in sources]
    plan = BatchPlan(EncodedSplit(list(sources), nothing, [[one] for one in nothing]))
    batches = shard(plan.ordered(config.batch_size * processes.world), processes.rank, processes.world)
    found: dict[int, list[Hypothesis]] = {}
    for indices in batches:
        spoken = [index for index in indices if sources[index]]
        if not spoken:
            continue
        batch = plan.collate(spoken).to(processes.device)
        words = [math.ceil(config.maximum_factor * len(sources[index])) + config.maximum_extra for index in spoken]
        maximum = torch.tensor(words, device=processes.device)
        if search == "mbr":
            arguments = (batch.source, batch.source_lengths, maximum, config.forbid_unknown, word_start)
            hypotheses = [[hypothesis] for hypothesis in consensus(model, *arguments)]
        elif isinstance(model, FrameModel) and width > 1:
            several = (batch.source, batch.source_lengths, maximum, width, n_best, config.forbid_unknown)
            hypotheses = model.beam(*several)
        elif isinstance(model, OnePassModel):
            best = model.translate(batch.source, batch.source_lengths, maximum, config.forbid_unknown)
            hypotheses = [[hypothesis] for hypothesis in best]
        elif not isinstance(model, AutoregressiveModel):
            raise TypeError(f"model is a {type(model).__name__}, which cannot translate")
        else:
            hypotheses = beam(
                model,
                batch.source,
                batch.source_lengths,
                width,
                maximum,
                length_penalty=config.length_penalty,
                n_best=n_best,
                forbid_unk=config.forbid_unknown,
            )
        found.update(zip(spoken, hypotheses, strict=True))
    for theirs in processes.gather(found):
        found |= theirs
    return [found.get(index, [NOTHING]) for index in range(len(sources))]
