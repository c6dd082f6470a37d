"""Tables to fits: classical tests and Bayesian models, with their checks."""
