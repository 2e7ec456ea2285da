"""What two processes say to each other in every step; started by torchrun."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from maxsup.lab.core.config import parse_recipe
from maxsup.lab.training.builders import build_data
from maxsup.lab.training.preflight.estimate import create_trainer
from maxsup.lab.training.processes import leave_group


class Collectives(TorchDispatchMode):
    """Notes the communication between processes, that of gradients included."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "c10d":
            self.names.append(function._schema.name.removeprefix("c10d::"))
        return function(*args, **(kwargs or {}))


def main(output: str, *words: str) -> None:
    recipe = parse_recipe({}, words)
    trainer = create_trainer(recipe, build_data(recipe))
    trainer.start_epoch()
    noted = []
    for _, batch in zip(range(4), trainer.remaining_batches(), strict=False):
        with Collectives() as collectives:
            trainer.step(batch)
        noted.append(collectives.names)
    trainer.settle()
    if os.environ["RANK"] == "0":
        Path(output).write_text(json.dumps(noted))
    leave_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
