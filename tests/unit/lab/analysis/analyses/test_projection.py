from pathlib import Path

import pytest
import torch

from maxsup.diagnosis import Outputs
from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import projection
from maxsup.lab.analysis.analyses.projection import Plane, pick_classes
from tests.unit.lab.analysis.made import NO_TEMPLATES, make_run

NAMES = ("ant", "bee", "cat", "dog")


def outputs(wrong: dict[tuple[int, int], int], features: torch.Tensor | None = None) -> Outputs:
    """Forty samples a class, some taken for another class."""
    labels = torch.arange(4).repeat_interleave(40)
    predicted = labels.clone()
    for (label, taken), count in wrong.items():
        predicted[(labels == label).nonzero().flatten()[-count:]] = taken
    features = torch.eye(4)[labels] if features is None else features
    return Outputs(torch.eye(4)[predicted], labels, features, class_names=NAMES)


def test_the_plane_keeps_distances_between_its_corners() -> None:
    corners = torch.randn(3, 7, dtype=torch.float64)
    plane = Plane(corners)
    torch.testing.assert_close(torch.cdist(plane.corners, plane.corners), torch.cdist(corners, corners))
    torch.testing.assert_close(plane.coordinates(corners), plane.corners)


def test_what_is_off_the_plane_falls_on_it_at_a_right_angle() -> None:
    corners = torch.zeros(3, 5, dtype=torch.float64)
    corners[1, 0], corners[2, 1] = 2.0, 3.0
    points = torch.tensor([[1.0, 1.0, 8.0, -9.0, 4.0]], dtype=torch.float64)
    centre = corners.mean(dim=0)
    assert Plane(corners).coordinates(points).tolist() == [
        [pytest.approx(1.0 - centre[0].item()), pytest.approx(1.0 - centre[1].item())]
    ]


def test_corners_on_one_line_are_refused() -> None:
    with pytest.raises(ValueError, match="must not lie on one line"):
        Plane(torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))


def test_the_most_confused_pair_takes_the_class_that_is_confused_with_both() -> None:
    found = outputs({(0, 2): 5, (2, 0): 5, (3, 0): 2, (1, 3): 4})
    assert pick_classes([found], "confused") == ("ant", "cat", "dog")


def test_all_models_together_decide() -> None:
    one, other = outputs({(0, 1): 9}), outputs({(2, 3): 10, (1, 3): 2})
    assert pick_classes([one, other], "confused") == ("bee", "cat", "dog")


def test_similar_classes_are_those_whose_mean_features_point_alike() -> None:
    directions = torch.tensor([[1.0, 0.0], [0.95, 0.3], [0.9, 0.5], [-1.0, 0.2]])
    features = directions[torch.arange(4).repeat_interleave(40)]
    assert pick_classes([outputs({}, features)], "similar") == ("ant", "bee", "cat")
    # Without errors the most confused classes are the most similar ones.
    assert pick_classes([outputs({}, features)], "confused") == ("ant", "bee", "cat")


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ("confuse", "classes must be one of 'confused', 'similar'; got 'confuse'. Did you mean 'confused'?"),
        (["ant", "bee", "dig"], "class must be one of the data; got 'dig'. Did you mean 'dog'?"),
        (["ant", "bee", "ant"], "classes must be three different names"),
    ],
)
def test_wrong_classes_are_named(classes: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("?", "\\?")):
        pick_classes([outputs({})], classes)


def test_runs_that_are_compared_share_classes_and_samples(digit_runs: list[Path]) -> None:
    runs = [RunOutputs(path) for path in digit_runs]
    agreed = projection.agree(runs, split="test")
    assert len(agreed["classes"]) == 3
    results = [projection.compute(run, split="test", **agreed)["data"] for run in runs]
    assert all(result["classes"] == agreed["classes"] for result in results)
    sizes = [[len(group) for group in result["points"]["test"]] for result in results]
    assert sizes[0] == sizes[1] == sizes[2]
    assert max(sizes[0]) <= 80
    assert [len(group) for group in results[0]["points"]["train"]] == [80, 80, 80]


def test_templates_are_the_corners_with_their_bias(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    data = projection.compute(run, split="test", classes=["0", "1", "2"])["data"]
    assert data["basis"] == "templates"
    assert run.weight is not None
    assert run.bias is not None
    templates = torch.cat([run.weight, run.bias.unsqueeze(1)], dim=1)[:3].double()
    corners = torch.tensor(data["corners"], dtype=torch.float64)
    torch.testing.assert_close(torch.cdist(corners, corners), torch.cdist(templates, templates), rtol=1e-6, atol=1e-8)
    features, labels = run.features("test")
    # A sample has a 1 in the place of the bias.
    first = torch.nn.functional.pad(features[labels == 0], (0, 1), value=1.0)
    expected = projection.Plane(templates).coordinates(first)
    drawn = torch.tensor(data["points"]["test"][0], dtype=torch.float64)
    torch.testing.assert_close(drawn, expected)


def test_centroids_are_the_means_of_their_samples(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    found = run.split("test")
    data = projection.compute(run, split="test", classes=["0", "1", "2"], basis="centroids", num_samples=1000)["data"]
    means = [torch.tensor(group, dtype=torch.float64).mean(dim=0) for group in data["points"]["test"]]
    torch.testing.assert_close(torch.stack(means), torch.tensor(data["corners"], dtype=torch.float64))
    assert sum(len(group) for group in data["points"]["test"]) == int((found.labels < 3).sum())


def test_a_head_without_templates_is_shown_by_centroids(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "tde", "ce", *NO_TEMPLATES))
    assert projection.compute(run, split="test")["data"]["basis"] == "centroids"
    assert projection.obstacle(run, split="test") is None
    assert "no templates" in str(projection.obstacle(run, split="test", basis="templates"))
