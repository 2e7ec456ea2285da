"""Processes that take a run to its end, whatever number of them began it; started by torchrun."""

import sys
from pathlib import Path

from maxsup.lab.core.config import parse_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter

if __name__ == "__main__":
    train(parse_recipe({}, sys.argv[2:]), Path(sys.argv[1]), reporter=Reporter())
