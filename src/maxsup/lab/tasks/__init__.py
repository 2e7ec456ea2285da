"""Tasks by name: what data, networks, batches and numbers have to do with each other."""

from __future__ import annotations

from maxsup.lab.tasks.base import TASKS, Task, check_model, check_unused, task_of_model, task_of_numbers
from maxsup.lab.tasks.classification import evaluate

__all__ = ["TASKS", "Task", "check_model", "check_unused", "evaluate", "task_of_model", "task_of_numbers"]
