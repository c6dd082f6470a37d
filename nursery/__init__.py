"""Training of the controlled study's models: `python -m nursery`; its findings are in `thermostats.studies.nursery`."""
