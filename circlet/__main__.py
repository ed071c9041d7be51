"""`python -m circlet` is the `circlet` program."""

from circlet.cli import main

main()
