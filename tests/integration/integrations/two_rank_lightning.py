"""What each of two processes does in the test of Lightning; started by torchrun."""

import json
import sys
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, DistributedSampler

from maxsup.integrations.lightning import MaxSupCallback
from tests.integration.integrations.tiny_lightning import Classifier, batches, trainer


def main(folder: str) -> None:
    torch.set_num_threads(1)
    model = Classifier()
    # Lightning's own sampler would shuffle.
    running = trainer(MaxSupCallback(), library=pl, devices=2, strategy="ddp", use_distributed_sampler=False)
    data = batches().dataset
    sampler = DistributedSampler(data, num_replicas=2, rank=running.global_rank, shuffle=False)
    running.fit(model, DataLoader(data, batch_size=8, sampler=sampler))
    if running.global_rank == 0:
        numbers = {name: value.item() for name, value in running.logged_metrics.items()}
        state = {name: value.tolist() for name, value in model.network.state_dict().items()}
        (Path(folder) / "result.json").write_text(json.dumps({"logged": numbers, "weights": state}))


if __name__ == "__main__":
    main(*sys.argv[1:])
