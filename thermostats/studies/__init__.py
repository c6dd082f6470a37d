"""Studies: each brings tables, words and questions; the instrument imports none of them."""
