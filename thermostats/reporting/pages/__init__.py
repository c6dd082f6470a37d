"""Pages of the report, one module each: their Markdown and the files that accompany it."""
