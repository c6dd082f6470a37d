"""One file a law: its equation, its priors, its fit."""
