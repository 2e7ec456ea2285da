"""What a table of paired comparisons shows, in words: the text that stands under it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from maxsup.studies.power import MIN_SEEDS, detectable_difference, seeds_needed, smallest_p_value
from maxsup.studies.statistics import PairedComparison

BOLD_RULE = (
    f"Bold: at least {MIN_SEEDS} paired seeds, and Student's 95 % interval of the difference excludes 0. "
    "Bold is a finding about one comparison; the exact sign-flip p, also after Holm, stands beside it."
)


@dataclass(frozen=True)
class Quantity:
    """How a number is called and printed: ``factor`` times the value, with ``digits`` decimals and the unit.

    Example:
        >>> Quantity("accuracy", unit="points", factor=100, digits=2).text(0.0123)
        '1.23 points'
    """

    name: str
    unit: str = ""
    factor: float = 1.0
    digits: int = 3

    def text(self, value: float, *, has_unit: bool = True) -> str:
        """The number as printed."""
        return f"{value * self.factor:.{self.digits}f}{f' {self.unit}' if self.unit and has_unit else ''}"


def verdict_sentences(comparisons: Mapping[str, PairedComparison], baseline: str, quantity: Quantity) -> list[str]:
    r"""One sentence or two a loss, then what holds for the table as a whole.

    Args:
        comparisons: By loss, of :func:`~maxsup.studies.statistics.compare_losses`.
        baseline: What they were compared with.
        quantity: What was measured.

    Example:
        >>> from maxsup.studies.statistics import compare_losses
        >>> few = compare_losses({"ce": [0.1, 0.2, 0.3], "maxsup": [0.3, 0.4, 0.5]}, "ce")
        >>> print(*verdict_sentences(few, "ce", Quantity("accuracy", "points", 100, 1)), sep="\n")
        maxsup: accuracy is 20.0 points higher than with ce on average over 3 seeds, and nothing can be concluded from
        that: the smallest p that 3 seeds can give is 0.25.
    """
    sentences = [_sentence(loss, found, baseline, quantity) for loss, found in comparisons.items()]
    return [*sentences, *_correction(comparisons), *_power(comparisons, quantity)]


def _sentence(loss: str, found: PairedComparison, baseline: str, quantity: Quantity) -> str:
    missing = _missing(found)
    if found.num_pairs == 0:
        return f"{loss}: no seed has both this loss and {baseline}, so there is nothing to compare.{missing}"
    opening = (
        f"{loss}: {quantity.name} is {_size(found, quantity)} than with {baseline} on average over {_seeds(found)}"
    )
    if found.mean_difference == 0:
        opening = f"{loss}: mean {quantity.name} equals that of {baseline} over {_seeds(found)}"
    if found.num_pairs < MIN_SEEDS:
        least = smallest_p_value(found.num_pairs)
        return (
            f"{opening}, and nothing can be concluded from that: the smallest p that {_seeds(found)} can give is "
            f"{least:g}.{missing}"
        )
    low, high = quantity.text(found.low, has_unit=False), quantity.text(found.high)
    evidence = f"(95 % interval {low} to {high}, p = {found.p_value:.3g})"
    return f"{opening} {evidence}. {_conclusion(found)}{_equivalence(found, quantity)}{missing}"


def _conclusion(found: PairedComparison) -> str:
    if found.is_conclusive:
        word = {"none": "different"}.get(found.direction, "better" if found.is_better else "worse")
        return f"Under this recipe it is {word}."
    return "No conclusion: no difference at all would fit these numbers too."


def _equivalence(found: PairedComparison, quantity: Quantity) -> str:
    if found.margin is None or math.isnan(found.equivalence_p):
        return ""
    margin, p = quantity.text(found.margin), f"(p = {found.equivalence_p:.2g})"
    if found.is_conclusive:
        return f" The difference is smaller than {margin} {p}." if found.is_equivalent else ""
    if found.is_equivalent:
        return f" The two are equal within {margin} {p}."
    return f" That they are equal within {margin} is not shown either {p}."


def _correction(comparisons: Mapping[str, PairedComparison]) -> list[str]:
    """What is left when all comparisons of the table are taken together."""
    enough = [found for found in comparisons.values() if found.num_pairs >= MIN_SEEDS]
    if len(enough) < 2:
        return []
    count = len(comparisons)
    bold = [loss for loss, found in comparisons.items() if found.is_conclusive]
    kept = [loss for loss in bold if comparisons[loss].holds_after_correction]
    seeds, wanted = min(found.num_pairs for found in enough), seeds_needed(count)
    if kept:
        rest = [loss for loss in bold if loss not in kept]
        lost = f"; {_listed(rest)} {'does' if len(rest) == 1 else 'do'} not" if rest else ""
        return [f"Taken together ({count} comparisons, Holm): {_listed(kept)} {_stand(kept)}{lost}."]
    if not bold:
        return [f"Taken together ({count} comparisons, Holm): no difference stands."]
    text = f"Taken together ({count} comparisons, Holm): none of these differences stands after correction"
    if seeds < wanted:
        text += f"; with {seeds} seeds none can, {wanted} or more are needed for that"
    return [f"{text}. Read {_listed(bold)} as {'a lead' if len(bold) == 1 else 'leads'} to be confirmed."]


def _power(comparisons: Mapping[str, PairedComparison], quantity: Quantity) -> list[str]:
    """What these seeds would have missed, where something was left open."""
    spreads = [
        (found.std_difference, found.num_pairs)
        for found in comparisons.values()
        if found.num_pairs >= MIN_SEEDS and not found.is_conclusive
    ]
    if not spreads:
        return []
    sizes = sorted(detectable_difference(spread, num) for spread, num in spreads)
    least, most = quantity.text(sizes[0]), quantity.text(sizes[-1])
    size = least if least == most else f"{quantity.text(sizes[0], has_unit=False)} to {most}, depending on the loss,"
    return [
        f"What was left open may still exist: with the spread seen here, true differences below {size} are missed in "
        "more than one case of five."
    ]


def _size(found: PairedComparison, quantity: Quantity) -> str:
    word = "higher" if found.mean_difference > 0 else "lower"
    return f"{quantity.text(abs(found.mean_difference))} {word}"


def _seeds(found: PairedComparison) -> str:
    return f"{found.num_pairs} seed{'' if found.num_pairs == 1 else 's'}"


def _missing(found: PairedComparison) -> str:
    if not found.num_missing:
        return ""
    noun = "seed is" if found.num_missing == 1 else "seeds are"
    return f" {found.num_missing} {noun} missing; runs that fail are seldom a random choice."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _stand(names: list[str]) -> str:
    return "stands" if len(names) == 1 else "stand"
