"""Pages of the report, a module each: what they tell, as Markdown, and the files beside it."""
