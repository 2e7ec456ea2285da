import pytest
import torch

from maxsup.lab.data.pipelines.augment import Mix, draw_mix, mix_images, partner_positions


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(6, 3, 8, 10)


LABELS = torch.tensor([0, 1, 2, 3, 3, 1])


def test_mixup_equals_a_loop(images: torch.Tensor) -> None:
    made, target = mix_images(images, LABELS, Mix(0.3), 4)
    for position, partner in enumerate([1, 0, 3, 2, 5, 4]):
        torch.testing.assert_close(made[position], 0.3 * images[position] + 0.7 * images[partner])
        expected = torch.zeros(4)
        expected[LABELS[position]] += 0.3
        expected[LABELS[partner]] += 0.7
        torch.testing.assert_close(target[position], expected)


def test_cutmix_pastes_the_box_of_the_partner(images: torch.Tensor) -> None:
    made, target = mix_images(images, LABELS, Mix(0.85, (2, 4, 5, 8)), 4)
    expected = images.clone()
    for position, partner in enumerate([1, 0, 3, 2, 5, 4]):
        expected[position, :, 2:5, 4:8] = images[partner, :, 2:5, 4:8]
    assert torch.equal(made, expected)
    torch.testing.assert_close(target[0], torch.tensor([0.85, 0.15, 0.0, 0.0]))


def test_the_last_of_an_odd_number_is_mixed_with_itself(images: torch.Tensor) -> None:
    made, target = mix_images(images[:5], LABELS[:5], Mix(0.3), 4)
    torch.testing.assert_close(made[4], images[4])
    assert target[4].tolist() == [0, 0, 0, 1]
    assert partner_positions(1).tolist() == [0]
    assert partner_positions(0).tolist() == []


def test_the_share_of_cutmix_is_that_of_the_clipped_box() -> None:
    clipped = 0
    for seed in range(300):
        mix = draw_mix(seed, 0.0, 1.0, 32, 24)
        top, left, bottom, right = mix.box
        assert 0 <= top <= bottom <= 32
        assert 0 <= left <= right <= 24
        assert mix.share == pytest.approx(1 - (bottom - top) * (right - left) / (32 * 24))
        clipped += 0 in (top, left) or bottom == 32 or right == 24
    assert clipped > 100


def test_shares_follow_their_distribution() -> None:
    for parameter in (0.2, 1.0):
        shares = torch.tensor([draw_mix(seed, parameter, 0.0, 8, 8).share for seed in range(3000)])
        assert abs(shares.mean() - 0.5) < 0.04
        assert abs(shares.var() - 1 / (4 * (2 * parameter + 1))) < 0.02


def test_where_both_are_on_either_is_taken_half_the_time() -> None:
    cut = [draw_mix(seed, 0.8, 1.0, 8, 8).box is not None for seed in range(600)]
    assert 240 < sum(cut) < 360
    assert all(draw_mix(seed, 0.8, 0.0, 8, 8).box is None for seed in range(20))
