"""Findings to figures and pages."""
