"""Tests of the training; all are slow."""
