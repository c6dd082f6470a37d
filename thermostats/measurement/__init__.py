"""Models on disk to rows; the only code that imports torch and transformers."""
