"""Heritage, geometry, scale: shares of the variance of the log gain and the model of their order."""

from thermostats.modelling.heritage.fit import fit_heritage

__all__ = ["fit_heritage"]
