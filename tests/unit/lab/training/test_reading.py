"""Reading a run back: which keys of its recipe may change."""

import pytest

from maxsup.lab.core.config import Recipe, flat_items
from maxsup.lab.training.reading import EVALUATED, check_evaluated


@pytest.mark.parametrize("key", EVALUATED)
def test_a_key_that_evaluation_looks_at_is_one_of_the_recipe(key: str) -> None:
    assert key in flat_items(Recipe().model_dump(mode="json"))
    check_evaluated([f"{key}=1"])


@pytest.mark.parametrize("key", ["loss.name", "epochs", "model.name", "augment.flip", "data.drop_last", "batch_sizes"])
def test_a_key_that_only_training_looks_at_is_refused_with_those_that_may_change(key: str) -> None:
    with pytest.raises(ValueError, match=f"got '{key}'.* these may change: data.name, .*batch_size, .*threads"):
        check_evaluated(["data.options.imbalance=3", f"{key}=1"])
