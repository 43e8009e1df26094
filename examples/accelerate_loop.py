"""A training loop with Accelerate: gradient accumulation, and as many processes as it was launched with.

python examples/accelerate_loop.py                  # one process
python examples/accelerate_loop.py --processes 2    # two on the CPU; `accelerate launch --cpu` would run one
"""

import accelerate
import torch
from corpus import options
from t5 import new_model_and_batches
from transformers import set_seed

from bleugrad.hf import BLEULoss


def train(steps: int, data=None) -> float:
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2, cpu=not torch.cuda.is_available())
    set_seed(0)
    tokenizer, model, loader = new_model_and_batches(data, batch_size=16)
    loss = BLEULoss(model, tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    done, value = 0, torch.zeros(())
    while done < steps:
        for batch in loader:
            with accelerator.accumulate(wrapped):
                labels = batch.pop("labels")
                value = loss(wrapped(**batch), labels)  # the mean over all processes' labels
                accelerator.backward(value)
                optimizer.step()
                optimizer.zero_grad()
            done += accelerator.sync_gradients
            if done >= steps:
                break
    mean = accelerator.reduce(value.detach(), "mean").item()
    if accelerator.process_index == 0:
        print(f"processes {accelerator.num_processes}, loss {mean:.4f}")
    return mean


def main() -> None:
    parser = options(__doc__.splitlines()[0], steps=200, needs_data="train.de.gz, train.en.gz and valid.*")
    parser.add_argument("--processes", type=int, default=1, help="on the CPU")
    chosen = parser.parse_args()
    if chosen.model:
        parser.error("--model: this example trains a new model")
    if chosen.processes > 1:
        accelerate.debug_launcher(train, (chosen.steps, chosen.data), num_processes=chosen.processes)
    else:
        train(chosen.steps, chosen.data)


if __name__ == "__main__":
    main()
