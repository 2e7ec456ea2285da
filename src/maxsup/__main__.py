"""``python -m maxsup``: the command line, also where the script is not on the path."""

from maxsup.cli import main

main()
