"""Random numbers as a function of where the run stands, so that a resumed run draws the same ones."""

import hashlib

import torch


def seed_step(seed: int, *place: int) -> None:
    """Seed torch's generators for one step: ``place`` is the step and the process.

    Nothing has to be saved or restored: the numbers of a step do not depend on how the run got there.
    """
    torch.manual_seed(derived_seed(seed, *place))


def derived_seed(seed: int, *place: int) -> int:
    """A seed of 63 bits for a place in the run.

    Example:
        >>> derived_seed(0, 1, 0) == derived_seed(0, 1, 0) != derived_seed(0, 0, 1)
        True
    """
    words = ",".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big") >> 1
