"""The ImageNet recipes as they are, on real JPEG files at 224 pixels: only the batch and the network are smaller."""

import json
from pathlib import Path

import pytest

from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter
from tests.contract.recipe_data import folder_tree
from tests.integration.integrations.launch import run_two_ranks

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

# Narrower networks of the same depth.
SMALLER = {
    "imagenet_resnet": ["model.options.channels=[8, 16, 32, 64]", "batchnorm=local"],  # CPUs cannot synchronise norms
    "imagenet_deit_small": ["model.options.embed_dim=48"],
}
LAST_STEP = 10


@pytest.mark.parametrize("name", list(SMALLER))
def test_ten_steps_on_two_ranks_go_on_with_one(name: str, tmp_path: Path) -> None:
    folder_tree(tmp_path / "data/imagenet", per_class=14)
    # 26 images in batches of 4 are 7 steps an epoch.
    circumstances = [f"data.root={tmp_path / 'data'}", "data.num_workers=1", "epochs=2", "schedule.warmup_epochs=1"]
    words = [*circumstances, *SMALLER[name], "batch_size=4"]
    run_two_ranks("tests.integration.some_ranks", tmp_path / "run", name, LAST_STEP, *words)
    state = json.loads((tmp_path / "run/checkpoints/last/state.json").read_text())
    assert state["num_processes"] == 2
    assert state["epoch"] == 1
    assert state["global_step"] == LAST_STEP + 1  # the other process learns of the signal in the next step
    summary = train(load_recipe(name, words), tmp_path / "run", reporter=Reporter())
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert (summary["steps"], len(lines)) == (14, 2)
    assert [line["decomposition"]["num_samples"] for line in lines] == [26.0, 26.0]
