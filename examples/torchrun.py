"""A training loop of one's own on several processes, each with a part of every batch: the loss of the whole batch.

python examples/torchrun.py                                                 # one process
torchrun --standalone --nproc-per-node=2 examples/torchrun.py               # DistributedDataParallel
torchrun --standalone --nproc-per-node=2 examples/torchrun.py --sharded     # FSDP
"""

import os

import torch
import torch.distributed as dist
from corpus import encode_pairs, options, train_tokenizer, translation_pairs
from t5 import small_model
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import set_seed

import bleugrad
from bleugrad.hf import BLEUCollator


def main() -> float:
    parser = options(__doc__.splitlines()[0], steps=400, needs_data="train.de.gz, train.en.gz and valid.*")
    parser.add_argument("--sharded", action="store_true", help="shard parameters over the processes (FSDP)")
    chosen = parser.parse_args()
    if chosen.model:
        parser.error("--model: this example trains a new model")
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    set_seed(0)
    train, _ = translation_pairs(chosen.data)
    tokenizer = train_tokenizer([line for pair in train for line in pair])
    model = small_model(tokenizer)
    collate = BLEUCollator(tokenizer, model)  # before the model is wrapped
    data = encode_pairs(tokenizer, train)
    sampler = DistributedSampler(data, processes, dist.get_rank() if processes > 1 else 0, seed=0, drop_last=True)
    loader = DataLoader(data, batch_size=32 // processes, sampler=sampler, collate_fn=collate, drop_last=True)

    if chosen.sharded and processes > 1:
        fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (processes,)))
        wrapped = model
    else:
        wrapped = DistributedDataParallel(model) if processes > 1 else model
    criterion = bleugrad.ExpectedBLEULoss.recommended(
        eos_id=tokenizer.eos_token_id,
        word_start=bleugrad.word_start_mask(tokenizer, size=model.config.vocab_size),
        process_group=dist.group.WORLD if processes > 1 else None,  # the mean over the sentences of all processes
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    step, value = 0, torch.zeros(())
    while step < chosen.steps:
        sampler.set_epoch(step)
        for batch in loader:
            loss = criterion(wrapped(**batch).logits, batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step, value = step + 1, loss.detach()
            if step >= chosen.steps:
                break
    if processes == 1 or dist.get_rank() == 0:
        print(f"processes {processes}, loss {value.item():.4f}")
    if processes > 1:
        dist.destroy_process_group()
    return value.item()


if __name__ == "__main__":
    main()
