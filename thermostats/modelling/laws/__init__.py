"""One file per law: its equation, its priors, its fit."""
