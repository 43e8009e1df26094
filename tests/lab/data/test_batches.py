"""Batches: every sentence once, order determined by (seed, epoch), split over processes, padded as models expect."""

import random
import time

import numpy as np
import pytest
import torch

from bleugrad.lab.data.batches import IGNORED, USUAL_LENGTH, BatchPlan, shard
from bleugrad.lab.data.encoding import EncodedSplit
from bleugrad.lab.special_ids import BOS, EOS, PAD


def encoded(rng, count, longest=30, more_references=False):
    def sentence():
        return rng.integers(4, 100, rng.integers(0, longest + 1)).tolist()

    targets = [sentence() for _ in range(count)]
    extra = [[sentence() for _ in range(rng.integers(0, 3))] if more_references else [] for _ in range(count)]
    references = [[target, *others] for target, others in zip(targets, extra, strict=True)]
    return EncodedSplit([sentence() for _ in range(count)], targets, references)


def tokens_of(batch):
    return int((batch.labels != IGNORED).sum())


def flat(batches):
    return [index for batch in batches for index in batch]


@pytest.mark.parametrize("by", ["sentences", "tokens"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 5000])
def test_an_epoch_holds_every_sentence_once(rng, by, count):
    plan = BatchPlan(encoded(rng, count), by, 64, seed=3)
    for number in (0, 1):
        assert sorted(flat(plan.epoch(number))) == list(range(count))
    assert all(plan.epoch(0)), "no batch is empty"


def test_sizes_are_kept(rng):
    data = encoded(rng, 1000)
    sizes = [len(batch) for batch in BatchPlan(data, "sentences", 64).epoch(0)]
    assert sorted(sizes) == [1000 % 64] + [64] * (1000 // 64)
    plan = BatchPlan(data, "tokens", 300)
    for batch in plan.epoch(0):
        tensors = plan.collate(batch)
        assert max(tensors.source.numel(), tensors.labels.numel()) <= 300
    assert max(len(batch) for batch in plan.epoch(0)) > 15
    tight = BatchPlan(data, "tokens", 5).epoch(0)
    assert sorted(flat(tight)) == list(range(1000)), "a sentence longer than a batch is a batch of its own"


def test_seed_and_epoch_decide_the_order_and_nothing_else_does(rng):
    data = encoded(rng, 500)
    plan = BatchPlan(data, "sentences", 16, seed=7)
    first = plan.epoch(2)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  # the global state is what must not matter
    torch.manual_seed(1)
    before = (random.getstate(), torch.get_rng_state())
    plan.epoch(5)
    assert plan.epoch(2) == BatchPlan(data, "sentences", 16, seed=7).epoch(2) == first
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert plan.epoch(3) != first
    assert BatchPlan(data, "sentences", 16, seed=8).epoch(2) != first


def test_the_order_is_the_same_on_every_machine():
    data = EncodedSplit([[4] * n for n in (3, 1, 2, 3, 1)], [[5] * n for n in (1, 2, 3, 1, 2)], [[]] * 5)
    assert BatchPlan(data, "sentences", 2, seed=1).epoch(0) == [[2], [0, 3], [4, 1]]


def test_like_lengths_go_together_and_batches_do_not_come_by_length(rng):
    plan = BatchPlan(encoded(rng, 6400), "sentences", 64)
    batches = [plan.collate(batch) for batch in plan.epoch(0)]
    assert sum(batch.labels.numel() for batch in batches) < 1.05 * sum(map(tokens_of, batches))
    widths = [batch.labels.shape[1] for batch in batches]
    assert abs(np.corrcoef(widths, range(len(widths)))[0, 1]) < 0.5
    alone = {frozenset(batch) for batch in plan.epoch(0)} & {frozenset(batch) for batch in plan.epoch(1)}
    assert not alone, "sentences meet others in every epoch"


def test_sources_of_one_length_go_together_if_positions_follow_them(rng):
    data = encoded(rng, 6400)

    def widths(batches):
        sides = [[len(side[index]) for index in batch] for side in (data.sources, data.targets) for batch in batches]
        return [sum(max(one) - min(one) for one in half) for half in (sides[: len(batches)], sides[len(batches) :])]

    by_target, by_source = (BatchPlan(data, "sentences", 64, by_source=by).epoch(0) for by in (False, True))
    assert widths(by_source)[0] < widths(by_target)[0] / 5
    assert widths(by_target)[1] < widths(by_source)[1] / 5
    assert sorted(index for batch in by_source for index in batch) == list(range(6400))


@pytest.mark.parametrize("by", ["sentences", "tokens"])
@pytest.mark.parametrize("world", [2, 3])
def test_processes_see_step_for_step_what_one_with_the_whole_batch_sees(rng, by, world):
    data = encoded(rng, 200)
    whole = BatchPlan(data, by, 48, seed=5).epoch(1)
    parts = [shard(BatchPlan(data, by, 48, seed=5).epoch(1), rank, world) for rank in range(world)]
    assert {len(part) for part in parts} == {len(whole)}, "all processes make as many steps"
    for step, batch in enumerate(whole):
        together = [index for part in parts for index in part[step]]
        assert sorted(together) == sorted(batch)
        sizes = [len(part[step]) for part in parts]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_evaluation_counts_every_sentence_once_over_all_processes(rng, world):
    plan = BatchPlan(encoded(rng, 101), seed=1)
    batches = plan.ordered(10)
    seen = [index for rank in range(world) for index in flat(shard(batches, rank, world))]
    assert sorted(seen) == list(range(101))
    lengths = [len(plan.encoded.sources[index]) for index in flat(batches)]
    assert lengths == sorted(lengths, reverse=True)
    assert max(map(len, batches)) == 10
    assert batches == BatchPlan(plan.encoded, seed=2).ordered(10)


def test_an_endless_line_does_not_widen_a_whole_batch():
    long = list(range(4, 10_004))
    data = EncodedSplit([[4], long, [5]], [[4], long, [5]], [[[4]], [long], [[5]]])
    batches = BatchPlan(data).ordered(32)
    assert batches == [[1], [0, 2]]
    plan = BatchPlan(data)
    assert all(plan.collate(batch).source.numel() <= max(10_001, 32 * USUAL_LENGTH) for batch in batches)


def test_tensors_of_a_batch():
    data = EncodedSplit([[7, 8], [9], []], [[5], [6, 7, 8], [4]], [[[5]], [[6, 7, 8]], [[4]]])
    batch = BatchPlan(data).collate([1, 0, 2])
    assert batch.source.tolist() == [[9, EOS, PAD], [7, 8, EOS], [EOS, PAD, PAD]]
    assert batch.source_lengths.tolist() == [2, 3, 1]
    assert batch.labels.tolist() == [[6, 7, 8, EOS], [5, EOS, -100, -100], [4, EOS, -100, -100]]
    assert batch.inputs().tolist() == [[BOS, 6, 7, 8], [BOS, 5, EOS, PAD], [BOS, 4, EOS, PAD]]
    assert (batch.indices.tolist(), tokens_of(batch), len(batch)) == ([1, 0, 2], 8, 3)
    assert batch.references is None
    assert {tensor.dtype for tensor in (batch.source, batch.source_lengths, batch.labels)} == {torch.long}


def test_references_come_along_where_there_are_several(rng):
    data = encoded(rng, 20, more_references=True)
    batch = BatchPlan(data).collate([3, 1])
    assert batch.references == [data.references[3], data.references[1]]
    assert batch.to("cpu").references == batch.references


def test_a_batch_of_no_sentence(rng):
    batch = BatchPlan(encoded(rng, 5, more_references=True)).collate([])
    assert batch.source.shape == batch.labels.shape == batch.inputs().shape == (0, 1)
    assert (batch.source_lengths.shape, batch.indices.shape) == ((0,), (0,))
    assert (len(batch), tokens_of(batch), batch.references) == (0, 0, [])
    assert batch.source.dtype == batch.indices.dtype == torch.long


def test_lengths_stay_on_the_cpu(rng):
    batch = BatchPlan(encoded(rng, 5)).collate([0, 1]).to("meta")
    assert batch.source.device.type == batch.labels.device.type == batch.indices.device.type == "meta"
    assert batch.source_lengths.device.type == "cpu"


def test_an_epoch_of_a_large_corpus_is_planned_in_an_instant(rng):
    lengths = rng.integers(1, 30, 164_000).tolist()
    sentences = [[4] * length for length in lengths]
    plan = BatchPlan(EncodedSplit(sentences, sentences, [[]] * len(sentences)), "tokens", 4096)
    began = time.perf_counter()
    plan.epoch(0)
    assert time.perf_counter() - began < 2  # about 0.1 s on an idle core
