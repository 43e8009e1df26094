"""Runs a function in two gloo processes."""

import os

import torch
import torch.distributed as dist

PROCESSES = 2


def run_processes(work, folder, *rest):
    """What `work(rank, *rest)` returns in each of the processes, by rank; it finds its peers in the environment."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # holds a free port from now on
    torch.multiprocessing.spawn(_enter, (store.port, folder, work, *rest), nprocs=PROCESSES)
    return [torch.load(folder / f"{rank}.pt") for rank in range(PROCESSES)]


def _enter(rank, port, folder, work, *rest):
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(PROCESSES),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # as under torchrun: the store is there, rank 0 opens none
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    torch.save(work(rank, *rest), folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # an interpreter that ends beside threads of gloo may abort, and other libraries keep them alive
