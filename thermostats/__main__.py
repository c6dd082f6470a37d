"""`python -m thermostats` is `thermostats`."""

from thermostats.cli import main

main()
