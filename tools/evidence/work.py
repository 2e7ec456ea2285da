"""One task of the plan in this process: ``python -m tools.evidence.work TASK --data DIR --output DIR``."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tools.evidence.measures import Outputs, measure, set_torch_threads
from tools.evidence.plan import Plan, Task, load_plan, tasks
from tools.evidence.results import Row, is_done, write_result


def do(plan: Plan, task: Task, root: Path, output: Path) -> None:
    """Do a task, unless it is done."""
    folder = output / task.name
    if is_done(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    set_torch_threads()
    kind = plan.pools[task.pool].kind
    started, cpu = time.time(), time.process_time()
    if kind == "heads":
        _heads(plan, task, root, folder)
    elif kind == "images":
        from tools.evidence.images import train_images

        train_images(task.pool, plan.pools[task.pool], task.arms[0], task.seeds[0], root, folder)
    else:
        from tools.evidence.translation import train_translation

        train_translation(task.pool, plan.pools[task.pool], task.arms[0], task.seeds[0], root, folder)
    seconds = {"wall": time.time() - started, "cpu": time.process_time() - cpu, "finished": time.time()}
    (folder / "cost.json").write_text(json.dumps(seconds))


def _heads(plan: Plan, task: Task, root: Path, folder: Path) -> None:
    """All arms of one capacity, under a block of seeds."""
    from maxsup.losses import create_loss
    from tools.evidence.features import load_features
    from tools.evidence.heads import Head, train_heads, training_error

    pool, choice = plan.pools[task.pool], task.head
    assert choice is not None
    assert pool.data is not None
    data, head = load_features(pool.data, root), Head(choice.kind, choice.width)
    rows, records = [], []
    for arm in task.arms:
        config = arm.loss_config(pool.num_classes)
        cpu = time.process_time()
        found = train_heads(data, head, create_loss(config.pop("name"), **config), choice.lr * arm.rate, task.seeds)
        seconds = (time.process_time() - cpu) / len(task.seeds)
        errors = training_error(found.train, data.train)
        for i, seed in enumerate(task.seeds):
            outputs = Outputs(found.val[i], data.val.labels, found.test[i], data.test.labels)
            numbers, record = measure(outputs)
            numbers |= {"train_accuracy": 1 - float(errors[i]), "cpu_seconds": seconds}
            rows.append(Row(task.pool, arm.name, seed, numbers, found.curve[i].tolist(), head.name))
            records.append(record)
    write_result(folder, rows, records)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    plan = load_plan()
    (task,) = (task for task in tasks(plan) if task.name == given.task)
    do(plan, task, given.data, given.output)


if __name__ == "__main__":
    main()
