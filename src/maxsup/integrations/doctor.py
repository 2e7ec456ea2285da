"""What is wrong with a batch, a criterion, a script or the settings of a run: one sentence and a fix each.

The same as ``maxsup doctor`` on the command line. Nothing is changed, nothing is trained, and what is healthy gives an
empty list.
"""

from maxsup.integrations.doctor_batch import examine_accumulation, examine_batch
from maxsup.integrations.doctor_config import config_kind, examine_config
from maxsup.integrations.doctor_criterion import examine_criterion
from maxsup.integrations.doctor_finding import SEVERITIES, Finding
from maxsup.integrations.doctor_script import examine_script

__all__ = [
    "SEVERITIES",
    "Finding",
    "config_kind",
    "examine_accumulation",
    "examine_batch",
    "examine_config",
    "examine_criterion",
    "examine_script",
]
