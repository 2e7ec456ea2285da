"""``python -m maxsup.cli``, which is how ``torchrun -m`` starts every process."""

from maxsup.cli import main

main()
