"""Classical estimates and tests."""
