"""The plan of the second edition of the evidence: what is run, in which order, under which names."""

import pytest

from tools.evidence.claims import load_claims
from tools.evidence.plan import load_plan, tasks

PLAN = load_plan()


def test_every_task_has_a_name_of_its_own():
    names = [task.name for task in tasks(PLAN)]
    assert len(names) == len(set(names))


def test_no_evaluated_seed_is_one_of_the_first_edition_or_of_a_pilot():
    seeds = {seed for task in tasks(PLAN) for seed in task.seeds}
    assert min(seeds) >= 100
    assert 1000 not in seeds


def test_a_seed_of_a_stage_is_complete_in_all_pools_before_the_next_one_starts():
    stage = [task for task in tasks(PLAN) if task.pool in ("c10", "c100", "vit")][: 3 * 11 * 2]
    assert {task.seeds[0] for task in stage[:33]} == {100}
    assert {task.seeds[0] for task in stage[33:]} == {101}
    assert {task.pool for task in stage[:33]} == {"c10", "c100", "vit"}


def test_both_losses_are_run_at_the_same_strengths():
    for name, pool in PLAN.pools.items():
        arms = {arm.name for arm in PLAN.pool_arms(name)}
        if pool.experiment != "E":
            assert {arm.removeprefix("ls ") for arm in arms if arm.startswith("ls ")} == {
                arm.removeprefix("maxsup ") for arm in arms if arm.startswith("maxsup ")
            }


def test_claims_are_about_arms_and_numbers_of_their_pools():
    for claim in load_claims(PLAN).values():
        for pool in claim.pools:
            arms = {arm.name for arm in PLAN.pool_arms(pool)}
            assert {claim.claim, claim.than} <= arms
            seeds = [PLAN.seeds(pool, arm) for arm in (claim.claim, claim.than)]
            assert seeds[0] == seeds[1] != set()
            if claim.contrast == "rate":
                assert f"{claim.claim} rate=2" in arms


def test_reg_only_gets_the_share_of_alpha_that_makes_it_label_smoothing_on_right_predictions():
    (arm,) = (arm for arm in PLAN.arms["matched"] if arm.loss == "reg_only")
    assert arm.loss_config(10)["alpha"] == pytest.approx(0.09)
