"""TRL's GRPO with a reward for every token."""

from typing import Any

from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from bleugrad.hf.counting import IGNORED
from bleugrad.hf.rewards import ScoreReward


class TokenGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` whose advantages are those of tokens, (B, T). The rest is TRL's.

    ``reward_funcs`` is one :class:`bleugrad.hf.ScoreReward`. The advantage of a token is its reward to go, see
    :func:`bleugrad.token_rewards`, minus the mean of the rewards to go at the same position over the completions of the
    prompt, divided as ``scale_rewards`` says by the standard deviation of the scores over the group or the batch.
    """

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        reward = self.reward_funcs[0]
        if len(self.reward_funcs) != 1 or not isinstance(reward, ScoreReward):
            raise TypeError(f"reward_funcs is {self.reward_funcs!r}; expected one bleugrad.hf.ScoreReward")
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        ids = output["completion_ids"].masked_fill(output["completion_mask"] == 0, IGNORED)
        columns = {reward.column: [example[reward.column] for example in inputs if reward.column in example]}
        rewards = reward.of_tokens(ids, reward.references(columns, len(ids))).float()
        training = self.model is not None and self.model.training
        size: Any = self.num_generations if training else self.num_generations_eval
        every = self.accelerator.gather(self.accelerator.pad_across_processes(rewards, dim=1))
        first = self.accelerator.process_index * len(ids)
        found = token_advantages(every, size, str(self.scale_rewards))
        output["advantages"] = found[first : first + len(ids), : ids.shape[1]]
        return output


def token_advantages(rewards: Tensor, group: int, scale: str) -> Tensor:
    """Advantages (B, T) from rewards (B, T), whose rows are the completions of prompts, ``group`` of each.

    ``scale`` is "group", "batch" or "none": what the standard deviation of the scores is taken over.
    """
    to_go, scores = rewards.flip(1).cumsum(1).flip(1), rewards.sum(1).view(-1, group)
    grouped = to_go.view(-1, group, rewards.shape[1])
    found = grouped - grouped.mean(1, keepdim=True)
    if scale in ("group", "True") and group > 1:
        found = found / (scores.std(1)[:, None, None] + 1e-4)
    elif scale == "batch" and scores.numel() > 1:
        found = found / (scores.std() + 1e-4)
    return found.view_as(rewards)
