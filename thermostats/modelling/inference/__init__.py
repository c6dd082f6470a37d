"""Engines, draws, checks: what every family of models shares."""
