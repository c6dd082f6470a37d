"""A controlled study: small language models trained by designed recipes, and measured like any other."""
