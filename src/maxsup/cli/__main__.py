"""``python -m maxsup.cli``, as which ``torchrun -m`` can start every process."""

from maxsup.__main__ import main

main()
