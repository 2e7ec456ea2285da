from pathlib import Path

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import ood
from maxsup.metrics import detection, novelty_scores
from tests.unit.lab.analysis.made import values


def test_images_without_shape_are_noticed_by_their_features(digit_runs: list[Path]) -> None:
    found = ood.compute(RunOutputs(digit_runs[0]), split="test", num_neighbours=5)
    assert values(found)["ood_auroc_knn"] > 0.8
    assert found["data"]["others"] == ood.SHUFFLED
    assert found["data"]["num_others"] == found["data"]["num_known"]


def test_another_data_set_is_scored_by_the_same_network(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    numbers = values(ood.compute(run, split="test", data="synthetic"))
    known, others = (
        novelty_scores(each.logits)["energy"] for each in (run.split("test"), run.split("test", "synthetic"))
    )
    assert numbers["ood_auroc_energy"] == detection(known, others).auroc


def test_data_with_the_same_classes_is_refused_in_one_sentence(digit_runs: list[Path]) -> None:
    reason = str(ood.obstacle(RunOutputs(digit_runs[0]), split="test", data="synthetic"))
    assert reason.startswith("synthetic has classes of the run's own data (")
    assert ood.obstacle(RunOutputs(digit_runs[0]), split="test") is None
