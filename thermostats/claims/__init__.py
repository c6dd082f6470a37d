"""The contract of a claim: rule, verdict, finding, and what runs it."""
