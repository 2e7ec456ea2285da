"""Alpha schedules: ``Constant``, ``Linear``, ``Cosine``, ``Piecewise``, and the paper's four by name."""

from maxsup.core.schedules import PAPER_SCHEDULES, Constant, Cosine, Linear, Piecewise, Schedule, epoch_progress

__all__ = ["PAPER_SCHEDULES", "Constant", "Cosine", "Linear", "Piecewise", "Schedule", "epoch_progress"]
