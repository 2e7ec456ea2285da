"""What every loss refuses, in one sentence that says what, why and how to fix it."""

import re

import pytest
import torch

import maxsup
from tests.contract.calls import MIXABLE, SCHEDULED, UNMIXABLE, call_function, make_loss
from tests.contract.samples import distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF

OPTIONS = ("alpha", "beta", "gamma", "tau", "epsilon")
SENTENCE = re.compile(r"^.+ must .+; got .+\. .+\.$", re.DOTALL)
"""``{what} must {rule}; got {value}. {how to fix it}.``"""


def refusal(name: str, logits: torch.Tensor, target: torch.Tensor, **options) -> str:
    with pytest.raises(ValueError, match=SENTENCE) as error:
        make_loss(name, **options)(logits, target, **needs_of(name, logits))
    return str(error.value)


def test_three_losses_and_zipf_ls_need_a_single_label():
    assert sorted(UNMIXABLE) == ["err_amp_max", "err_amp_mean", "reg_only", "zipf_ls"]


@pytest.mark.parametrize("name", UNMIXABLE)
def test_a_loss_that_needs_labels_refuses_probabilities(name: str):
    logits = distinct_logits(6, 4)
    message = refusal(name, logits, mixed_for(logits))
    assert name in message
    assert "\n" not in message


def test_ground_truth_modulated_focal_label_smoothing_refuses_probabilities():
    logits = distinct_logits(6, 4)
    assert "class indices" in refusal("focal_ls", logits, mixed_for(logits), mode="gt_modulated")


def test_a_list_is_no_target(name: str):
    logits = distinct_logits(2, 4)
    with pytest.raises(TypeError) as error:
        make_loss(name)(logits, [0, 1], **needs_of(name, logits))
    assert SENTENCE.match(str(error.value))
    assert "got list. Use torch.as_tensor(target)" in str(error.value)


@pytest.mark.parametrize("bad", [4, 17, -3, -1])
def test_a_target_out_of_range_names_the_first_bad_row(name: str, bad: int):
    logits = distinct_logits(8, 4)
    target = labels_for(logits)
    target[1] = -100
    target[5] = bad
    target[6] = 99
    message = refusal(name, logits, target)
    assert re.search(rf"got {bad}\b", message)
    assert re.search(r"row 5\b", message)


def test_a_target_out_of_range_is_named_in_eval_mode_too(name: str):
    logits = distinct_logits(8, 4)
    target = labels_for(logits)
    target[5] = 4
    with pytest.raises(ValueError, match=r"got 4\b.*row 5\b"):
        make_loss(name).eval()(logits, target)
    assert make_loss(name).eval()(logits, labels_for(logits)) > 0


def test_a_target_out_of_range_in_a_picture_names_its_position(name: str):
    logits = distinct_logits(2, 4, 3)
    target = labels_for(logits)
    target[1, 2] = 9
    message = refusal(name, logits, target)
    assert re.search(r"got 9\b", message)
    assert re.search(r"\b1, 2\b", message)


def test_a_sample_without_a_label_is_refused(name: str):
    message = refusal(name, distinct_logits(6, 4), torch.zeros(5, dtype=torch.long))
    assert "(6,)" in message


@pytest.mark.parametrize("name", MIXABLE)
def test_probabilities_of_another_shape_are_refused(name: str):
    message = refusal(name, distinct_logits(6, 4), torch.eye(6, 3, dtype=torch.float64))
    assert "(6, 4)" in message


@pytest.mark.parametrize("name", MIXABLE)
def test_probabilities_cannot_be_ignored_by_a_class_index(name: str):
    logits = distinct_logits(6, 4)
    message = refusal(name, logits, mixed_for(logits), ignore_index=1)
    assert "ignore_index" in message


def test_integer_logits_are_refused(name: str):
    needs = needs_of(name, distinct_logits(6, 4))
    with pytest.raises(ValueError, match=r"input must be floating-point .*; got int64") as error:
        make_loss(name)(torch.ones(6, 4, dtype=torch.long), torch.zeros(6, dtype=torch.long), **needs)
    assert SENTENCE.match(str(error.value))


def test_a_weight_for_another_number_of_classes_is_refused(name: str):
    logits = distinct_logits(6, 4)
    message = refusal(name, logits, labels_for(logits), weight=torch.ones(3, dtype=torch.float64))
    assert "weight" in message


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_num_items_is_refused_where_there_is_no_mean(name: str, reduction: str):
    logits = distinct_logits(6, 4)
    with pytest.raises(ValueError, match=r"num_items must .*; got") as error:
        make_loss(name, reduction=reduction)(logits, labels_for(logits), num_items=6, **needs_of(name, logits))
    assert "mean" in str(error.value)


@pytest.mark.parametrize("num_items", [-1, -0.5, float("nan")])
def test_a_negative_or_undefined_num_items_is_refused(name: str, num_items: float):
    logits = distinct_logits(6, 4)
    for loss in (make_loss(name), make_loss(name).eval()):
        with pytest.raises(ValueError, match=rf"num_items must be .* at least 0; got {num_items}") as error:
            loss(logits, labels_for(logits), num_items=num_items, **needs_of(name, logits))
        assert SENTENCE.match(str(error.value))


def test_the_value_of_a_num_items_in_memory_is_not_read(name: str):
    logits = distinct_logits(6, 4).to("meta")
    needs = {need: value.to("meta") for need, value in needs_of(name, distinct_logits(6, 4)).items()}
    target = torch.zeros(6, dtype=torch.long, device="meta")
    loss = make_loss(name).to("meta")(logits, target, num_items=torch.tensor(-1.0, device="meta"), **needs)
    assert loss.shape == ()


@pytest.mark.parametrize("option", ["reduction", "empty"])
def test_an_unknown_choice_is_refused_when_the_loss_is_made(name: str, option: str):
    with pytest.raises(ValueError, match=rf"{option} must be one of .*; got 'avarage'") as error:
        maxsup.create_loss(name, **{option: "avarage"})
    assert SENTENCE.match(str(error.value))


@pytest.mark.parametrize("option", ["label_smoothing", "smoothing"])
def test_label_smoothing_is_not_combined_with_another_loss(name: str, option: str):
    with pytest.raises(ValueError, match=option) as error:
        maxsup.create_loss(name, **{option: 0.1})
    assert SENTENCE.match(str(error.value))


def test_a_mistyped_option_is_answered_with_the_nearest_one(name: str):
    with pytest.raises(TypeError) as error:
        maxsup.create_loss(name, ignore_indx=1)
    assert "ignore_indx" in str(error.value)
    assert "'ignore_index'" in str(error.value)


@pytest.mark.parametrize("unknown", [{"label_smoothing": 0.1}, {"ignore_indx": 1}])
def test_an_option_that_no_function_has_is_refused_whatever_the_strength(name: str, unknown: dict[str, float]):
    logits = distinct_logits(6, 4)
    strengths = [{}] + [{option: 0.0} for option in CASE_OF[name].strength if option in OPTIONS[:3]]
    for strength in strengths:
        with pytest.raises(TypeError, match=f"must be those it has; got {next(iter(unknown))}="):
            call_function(name, logits, labels_for(logits), **strength, **unknown)


STRENGTHS = [(name, option) for name, case in CASE_OF.items() for option in case.strength if option in OPTIONS]


@pytest.mark.parametrize(("name", "option"), STRENGTHS)
def test_a_strength_must_be_a_number_that_is_not_negative(name: str, option: str):
    with pytest.raises(ValueError, match=rf"{option} must be .*; got -0.1"):
        maxsup.create_loss(name, **{option: -0.1})
    with pytest.raises(ValueError, match=rf"{option} must be .*; got nan"):
        maxsup.create_loss(name, **{option: float("nan")})
    with pytest.raises(ValueError, match=rf"{option} must be at most .*; got 1e\+300"):
        maxsup.create_loss(name, **{option: 1e300})
    for wrong in ("0.1", True):
        with pytest.raises(TypeError, match=rf"{option} must be .*; got {wrong!r}") as error:
            maxsup.create_loss(name, **{option: wrong})
        assert SENTENCE.match(str(error.value))


WITHOUT_STRENGTHS_OF_SAMPLES = {"dual_focal", "focal", "focal_ls", "focal_maxsup", "logit_norm"}


@pytest.mark.parametrize("name", SCHEDULED)
def test_strengths_of_the_wrong_shape_are_refused_and_a_tensor_of_one_number_is_not(name: str):
    logits, option = distinct_logits(6, 4), SCHEDULED[name]
    for options in ({}, {"weight": torch.ones(4, dtype=torch.float64)}):
        with pytest.raises(ValueError, match=rf"{option} must be one number for all samples.*; got .*\(4,\)") as error:
            call_function(name, logits, labels_for(logits), **{option: torch.full((4,), 0.3)}, **options)
        assert "weight=weights" in str(error.value)
        assert SENTENCE.match(str(error.value))
    expected = call_function(name, logits, labels_for(logits), **{option: 0.25})
    for strength in (torch.tensor(0.25), torch.tensor([0.25])):
        value = call_function(name, logits, labels_for(logits), **{option: strength})
        assert torch.allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("name", SCHEDULED)
def test_equal_strengths_of_all_samples_are_one_strength_or_refused(name: str):
    logits, option = distinct_logits(6, 4), SCHEDULED[name]
    strengths = {option: torch.full((6,), 0.25, dtype=torch.float64)}
    if name in WITHOUT_STRENGTHS_OF_SAMPLES:
        with pytest.raises(ValueError, match=rf"{option} must be one number for all samples; got .*\(6,\)"):
            call_function(name, logits, labels_for(logits), **strengths)
    else:
        value = call_function(name, logits, labels_for(logits), **strengths)
        assert torch.allclose(value, call_function(name, logits, labels_for(logits), **{option: 0.25}), rtol=1e-12)


@pytest.mark.slow
def test_a_compiled_loss_refuses_strengths_of_the_wrong_shape():
    logits = distinct_logits(6, 4)
    compiled = torch.compile(call_function, backend="eager")
    with pytest.raises(ValueError, match="alpha must be one number for all samples"):
        compiled("maxsup", logits, labels_for(logits), alpha=torch.full((4,), 0.3))
