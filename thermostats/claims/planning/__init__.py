"""Which public models to measure next for a claim: what candidates would add, and what verdicts
they would bring."""
