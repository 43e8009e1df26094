"""A small training run, killed once or several times and resumed, must end with the files of an undisturbed one."""

import os
import random
import shutil
import signal
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import partial

from bleugrad.lab.training.run import train_run
from tests.faults.sweep import run_child
from tests.lab.training.corpora import small_config, write_corpus
from tests.lab.training.kill_points import differences, train

SECONDS, CHILD_SECONDS = 600, 120


def prepare(folder):
    """Train the undisturbed run; the check kills another one."""
    return Kills(folder).check


class Kills:
    """The undisturbed run, how long it took and at how many moments it changed the disk."""

    def __init__(self, folder):
        self.folder, self.corpus = folder, folder / "corpus"
        self.corpus.mkdir()
        write_corpus(self.corpus)
        self.whole = folder / "whole"
        counted = folder / "counted"
        with open(os.devnull, "w") as null, redirect_stdout(null), redirect_stderr(null):
            train_run(small_config(self.corpus), folder / "first")  # here: the children find everything loaded
        began = time.monotonic()
        ended, _, said = self._train(self.whole, "whole", False, 0, counted)
        assert ended == "exit code 0", said
        self.moments, self.duration = int(counted.read_text()), time.monotonic() - began

    def check(self, seed):
        """Kill at moments of the disk (even seeds) or of the clock (odd seeds), then resume to the end."""
        choose = random.Random(seed)
        path, said = self.folder / f"killed-{seed}", f"said-{seed}"
        kills = []
        for number in range(choose.randint(1, 3)):
            if seed % 2:
                kills.append(choose.uniform(0, self.duration))
                self._kill_after(kills[-1], path, resume=number > 0)
            else:
                kills.append(choose.randint(1, self.moments))
                self._train(path, said, number > 0, kills[-1])
        ended, _, shown = self._train(path, said, True, 0)
        description = f"killed at {'seconds' if seed % 2 else 'moments'} {kills}: "
        if ended != "exit code 0":
            return f"{description}resumed with {ended}: {shown[-300:]}"
        changed = differences(path, self.whole)
        shutil.rmtree(path)
        return f"{description}{', '.join(changed)} changed" if changed else None

    def _train(self, path, said, resume, fatal, *counted):
        work = partial(train, small_config(self.corpus), path, resume, fatal, *counted)
        return run_child(work, self.folder / said, CHILD_SECONDS)

    def _kill_after(self, seconds, path, resume):
        child = os.fork()
        if child == 0:
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                train_run(small_config(self.corpus), path, resume=resume)
            finally:
                os._exit(0)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
