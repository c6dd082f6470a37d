"""D'Elia 2026: importer, audit and figures of the preprint."""
