"""The tidy tables: schemas, store, the study's published figures, features per model."""
