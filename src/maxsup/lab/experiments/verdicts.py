"""What paired comparisons show, in words: a few sentences for a whole comparison, and the text under each table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from maxsup.core.errors import counted
from maxsup.lab.experiments.statistics import (
    detectable_difference,
    seeds_needed,
    smallest_p_value,
)
from maxsup.lab.reports.summary import (
    DIFFERENT,
    MIN_SEEDS,
    Finding,
    PairedComparison,
    SummaryLoss,
    SummaryMetric,
    join_words,
)

BOLD_RULE = (
    f"Bold: at least {MIN_SEEDS} paired seeds, and Student's 95 % interval of the difference excludes 0. "
    "Bold is a finding about one comparison; the exact sign-flip p, also after Holm, stands beside it."
)

_AFTER = "_after"  # ends the name of a number after a temperature


def conclusions(losses: Sequence[SummaryLoss], metrics: Sequence[SummaryMetric], baseline: str) -> list[str]:
    """Return sentences for a reader who reads nothing else; MaxSup, which most readers came for, comes first.

    Example:
        >>> accuracy = SummaryMetric(name="accuracy", title="accuracy", unit="%", digits=1, factor=100.0)
        >>> entry = {"difference": 0.02, "low": 0.01, "high": 0.03, "is_conclusive": True, "num_pairs": 6}
        >>> losses = [SummaryLoss(loss="maxsup", title="MaxSup", metrics={"accuracy": entry})]
        >>> conclusions(losses, [accuracy], "ls")[0]
        'MaxSup against ls: accuracy is 2.0 points higher [+1.0, +3.0].'
    """
    others = sorted((loss for loss in losses if not loss.is_baseline), key=lambda loss: "maxsup" not in loss.loss)
    num_pairs = max((entry.num_pairs for loss in others for entry in loss.metrics.values()), default=0)
    if num_pairs < MIN_SEEDS:
        return [
            f"Nothing can be concluded: with fewer than {MIN_SEEDS} paired seeds (here {num_pairs}) no difference of "
            "any size can be shown."
        ]
    name = next((loss.title for loss in losses if loss.is_baseline), baseline)
    sentences = list[str]()
    for loss in others:
        sentences.append(f"{loss.title} against {name}{_found(loss, metrics, len(others))}")
        if rest := _after_temperature(loss, metrics, len(others)):
            sentences.append(f"Calibration of {loss.title} against {name}: {rest}.")
    if len(others) > 1 and num_pairs < seeds_needed(len(others)):
        sentences.append(
            f"Each of these stands alone. Corrected for {len(others)} comparisons (Holm), {num_pairs} seeds can show "
            f"nothing; {seeds_needed(len(others))} could."
        )
    sentences.append(
        "All of it holds for this recipe, this data and these strengths; other data and longer training may differ."
    )
    return sentences


def _found(loss: SummaryLoss, metrics: Sequence[SummaryMetric], num_comparisons: int) -> str:
    """Return what was found about a loss, the surest first; what a temperature changes has its own sentence."""
    held, alone, equal = list[str](), list[str](), list[str]()
    for metric in (each for each in metrics if not each.name.endswith(_AFTER)):
        entry = loss.number(metric)
        finding = entry.finding(metric.direction)
        if finding in DIFFERENT:
            sentence = f"{metric.title} is {_size(entry.difference, metric)} {_ends(entry, metric)}"
            (held if num_comparisons == 1 or entry.holds_after_correction else alone).append(sentence)
        elif finding == "equal" and metric.margin is not None:
            equal.append(f"{metric.title} is equal within {metric.size(metric.margin / metric.factor)}")
    parts = []
    if held:
        parts.append(f"{', after correction (Holm)' if num_comparisons > 1 else ''}: {join_words(held)}.")
    if alone:
        parts.append(f"{' Without correction also: ' if held else ', without correction: '}{join_words(alone)}.")
    if equal:
        sentence = join_words(equal)
        parts.append(f" {sentence[0].upper()}{sentence[1:]}." if parts else f": {sentence}.")
    return "".join(parts) or ": no difference was shown."


def _after_temperature(loss: SummaryLoss, metrics: Sequence[SummaryMetric], num_comparisons: int) -> str:
    """Return how calibrated a loss is as trained, and what a temperature leaves of it; "" without both numbers."""
    known = {metric.name: metric for metric in metrics}
    pairs = [(known[name], known[name + _AFTER]) for name in ("ece", "nll") if {name, name + _AFTER} <= known.keys()]
    if not pairs or any(loss.number(metric).num_pairs < MIN_SEEDS for pair in pairs for metric in pair):
        return ""

    def found(metric: SummaryMetric) -> Finding:
        return loss.number(metric).finding(metric.direction)

    def shown(metric: SummaryMetric, title: str) -> str:
        entry = loss.number(metric)
        alone = found(metric) in DIFFERENT and num_comparisons > 1 and not entry.holds_after_correction
        signed = f"{metric.signed(entry.difference)} {_ends(entry, metric)}"
        return f"{title} {signed}{' without correction' if alone else ''}"

    calibrated = {"better": "better calibrated", "worse": "less calibrated"}
    first, left = pairs[0][0], dict[str, list[str]]()
    for before, after in pairs:
        word = finding if (finding := found(after)) in DIFFERENT else "no difference shown"
        left.setdefault(word, []).append(shown(after, before.title))
    opening = f"{calibrated.get(found(first), 'no difference in calibration')} as trained ({shown(first, first.title)})"
    return (
        f"{opening}; after a temperature {join_words([f'{word} ({join_words(each)})' for word, each in left.items()])}"
    )


def verdict_sentences(comparisons: Mapping[str, PairedComparison], baseline: str, metric: SummaryMetric) -> list[str]:
    r"""Return one or two sentences per loss, then what holds for the table as a whole.

    Example:
        >>> from maxsup.lab.experiments.statistics import compare_losses
        >>> accuracy = SummaryMetric(title="accuracy", unit="%", factor=100, digits=1)
        >>> few = compare_losses({"ce": [0.1, 0.2, 0.3], "maxsup": [0.3, 0.4, 0.5]}, "ce")
        >>> print(*verdict_sentences(few, "ce", accuracy), sep="\n")
        maxsup: accuracy is 20.0 points higher than with ce on average over 3 seeds, and nothing can be concluded from
        that: the smallest p that 3 seeds can give is 0.25.
    """
    sentences = [_sentence(loss, found, baseline, metric) for loss, found in comparisons.items()]
    return [*sentences, *_correction(comparisons), *_power(comparisons, metric)]


def _sentence(loss: str, found: PairedComparison, baseline: str, metric: SummaryMetric) -> str:
    missing = ""
    if found.num_missing:
        verb = "is" if found.num_missing == 1 else "are"
        missing = f" {counted(found.num_missing, 'seed')} {verb} missing; runs that fail are seldom a random choice."
    finding = found.finding()
    if finding == "nothing":
        return f"{loss}: no seed has both this loss and {baseline}, so there is nothing to compare.{missing}"
    seeds = counted(found.num_pairs, "seed")
    size = _size(found.difference, metric)
    opening = f"{loss}: {metric.title} is {size} than with {baseline} on average over {seeds}"
    if found.difference == 0:
        opening = f"{loss}: mean {metric.title} equals that of {baseline} over {seeds}"
    if finding == "too few seeds":
        return (
            f"{opening}, and nothing can be concluded from that: the smallest p that {seeds} can give is "
            f"{smallest_p_value(found.num_pairs):g}.{missing}"
        )
    low, high = metric.plain(found.low), f"{metric.plain(found.high)} {metric.difference_unit}".rstrip()
    evidence = f"(95 % interval {low} to {high}, p = {found.p:.3g})"
    conclusion = "No conclusion: no difference at all would fit these numbers too."
    if finding in DIFFERENT:
        conclusion = f"Under this recipe it is {'different' if finding in ('higher', 'lower') else finding}."
    return f"{opening} {evidence}. {conclusion}{_equivalence(found, metric)}{missing}"


def _equivalence(found: PairedComparison, metric: SummaryMetric) -> str:
    if found.margin is None or math.isnan(found.equivalence_p):
        return ""
    margin, p = metric.size(found.margin), f"(p = {found.equivalence_p:.2g})"
    finding = found.finding()
    if finding in DIFFERENT:
        return f" The difference is smaller than {margin} {p}." if found.is_equivalent else ""
    if finding == "equal":
        return f" The two are equal within {margin} {p}."
    return f" That they are equal within {margin} is not shown either {p}."


def _correction(comparisons: Mapping[str, PairedComparison]) -> list[str]:
    """Return what remains when all comparisons of the table are taken together."""
    enough = [found for found in comparisons.values() if found.num_pairs >= MIN_SEEDS]
    if len(enough) < 2:
        return []
    together, wanted = f"Taken together ({len(comparisons)} comparisons, Holm):", seeds_needed(len(comparisons))
    bold = [loss for loss, found in comparisons.items() if found.finding() in DIFFERENT]
    kept = [loss for loss in bold if comparisons[loss].holds_after_correction]
    if kept:
        rest = [loss for loss in bold if loss not in kept]
        lost = f"; {join_words(rest)} {'does' if len(rest) == 1 else 'do'} not" if rest else ""
        return [f"{together} {join_words(kept)} {'stands' if len(kept) == 1 else 'stand'}{lost}."]
    if not bold:
        return [f"{together} no difference stands."]
    text = f"{together} none of these differences stands after correction"
    if (seeds := min(found.num_pairs for found in enough)) < wanted:
        text += f"; with {seeds} seeds none can, {wanted} or more are needed for that"
    return [f"{text}. Read {join_words(bold)} as {'a lead' if len(bold) == 1 else 'leads'} to be confirmed."]


def _power(comparisons: Mapping[str, PairedComparison], metric: SummaryMetric) -> list[str]:
    """Return what these seeds would have missed, if something was left open."""
    spreads = [
        (found.std_difference, found.num_pairs)
        for found in comparisons.values()
        if found.finding() in ("open", "equal")
    ]
    if not spreads:
        return []
    sizes = sorted(detectable_difference(spread, num) for spread, num in spreads)
    least, most = metric.size(sizes[0]), metric.size(sizes[-1])
    size = least if least == most else f"{metric.plain(sizes[0])} to {most}, depending on the loss,"
    return [
        f"What was left open may still exist: with the spread seen here, true differences below {size} are missed in "
        "more than one case of five."
    ]


def _ends(found: PairedComparison, metric: SummaryMetric) -> str:
    return f"[{metric.signed(found.low)}, {metric.signed(found.high)}]"


def _size(difference: float, metric: SummaryMetric) -> str:
    return f"{metric.size(difference)} {'higher' if difference > 0 else 'lower'}"
