import pytest
import torch

from maxsup.diagnosis.outputs import Outputs


def test_bare_arrays_must_have_as_many_rows_each() -> None:
    with pytest.raises(ValueError, match="features must have one entry for each row of logits; got 2 for 3 rows"):
        Outputs(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2, 4))


def test_classes_that_do_not_occur_do_not_count_for_the_median() -> None:
    outputs = Outputs(torch.zeros(6, 9), torch.tensor([0, 0, 0, 0, 8, 8]))
    assert (len(outputs), outputs.num_classes, outputs.num_a_class) == (6, 9, 2)
