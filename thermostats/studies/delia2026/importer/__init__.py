"""The study's published result files as tidy tables."""
