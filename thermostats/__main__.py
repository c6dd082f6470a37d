"""`python -m thermostats` is `thermostats`."""

from thermostats.cli.app import main

main()
