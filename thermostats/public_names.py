"""Public names of the package: its version, and the module that every function is defined in."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

PACKAGE = "thermostats"
VERSION = "0.5.0"
HOME = {
    "check": "thermostats.tables.store",
    "citations": "thermostats.reporting.snapshot",
    "compare": "thermostats.modelling.fit",
    "contribute": "thermostats.tables.export",
    "do": "thermostats.measurement.interventions",
    "export": "thermostats.tables.export",
    "features": "thermostats.tables.reading",
    "findings": "thermostats.reporting.verdicts",
    "fit": "thermostats.modelling.fit",
    "fit_envelope": "thermostats.modelling.kleiber",
    "fit_heritage": "thermostats.modelling.heritage.fit_heritage",
    "fit_kleiber": "thermostats.modelling.kleiber",
    "fit_line": "thermostats.modelling.lines",
    "fit_lineage": "thermostats.modelling.fit_lineage",
    "fit_matched": "thermostats.modelling.matched",
    "fit_share": "thermostats.modelling.shares",
    "fit_sources": "thermostats.modelling.measurements",
    "fit_transition": "thermostats.modelling.transition",
    "forget": "thermostats.tables.join",
    "gain_rows": "thermostats.modelling.model_gains",
    "join": "thermostats.tables.join",
    "load": "thermostats.tables.reading",
    "load_fit": "thermostats.modelling.fit",
    "models": "thermostats.tables.reading",
    "measure": "thermostats.measurement.from_python",
    "model_rows": "thermostats.tables.model_rows",
    "neighbour_joining": "thermostats.tables.tree_of_models",
    "options": "thermostats.settings",
    "paired": "thermostats.modelling.pairs",
    "next_models": "thermostats.claims.planning.next_models",
    "power": "thermostats.claims.power",
    "predict_gain": "thermostats.modelling.heritage.prediction",
    "profile": "thermostats.plots.general",
    "prompt_rows": "thermostats.tables.model_rows",
    "prove": "thermostats.measurement.proving",
    "report": "thermostats.reporting.report",
    "run_id": "thermostats.tables.runs",
    "spectral_angles": "thermostats.measurement.compare",
    "specification_curve": "thermostats.modelling.specification",
    "steer": "thermostats.measurement.interventions",
    "trajectories": "thermostats.plots.posterior",
    "tree": "thermostats.tables.tree_of_models",
    "weight_distances": "thermostats.measurement.compare",
}
CLAIMS = "claims"
"""The package of claims, which is a function too."""
STUDIES = "studies"
PUBLIC = ("__version__", CLAIMS, *HOME)
"""Names that can be imported from the package."""


def find_study(name: str) -> str:
    """The study whose claims alone ask for a model of this name, empty where none does; such names
    are found at the top, with a warning, for one release more."""
    if not name.startswith("fit_"):
        return ""
    folder = import_module(f"{PACKAGE}.{STUDIES}").__path__
    studies = []
    for found in iter_modules(folder):
        studies.append(f"{PACKAGE}.{STUDIES}.{found.name}")
    own = (study for study in studies if name in getattr(import_module(study), "__all__", ()))
    return next(own, "")
