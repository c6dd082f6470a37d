"""Heritage, geometry, scale: shares of the variance of the log gain and the model of their
order."""
