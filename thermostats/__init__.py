"""Statistical modelling and hypothesis testing of residual-stream gains in transformers."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, Any
from warnings import warn

from thermostats.public_names import CLAIMS, HOME, PUBLIC, STUDIES, VERSION, find_study

if TYPE_CHECKING:
    from thermostats.claims.planning.next_models import next_models as next_models
    from thermostats.claims.power import power as power
    from thermostats.measurement.compare import spectral_angles as spectral_angles
    from thermostats.measurement.compare import weight_distances as weight_distances
    from thermostats.measurement.from_python import measure as measure
    from thermostats.measurement.interventions import do as do
    from thermostats.measurement.interventions import steer as steer
    from thermostats.measurement.proving import prove as prove
    from thermostats.modelling.fit import compare as compare
    from thermostats.modelling.fit import fit as fit
    from thermostats.modelling.fit import load_fit as load_fit
    from thermostats.modelling.fit_lineage import fit_lineage as fit_lineage
    from thermostats.modelling.heritage.fit_heritage import fit_heritage as fit_heritage
    from thermostats.modelling.heritage.prediction import predict_gain as predict_gain
    from thermostats.modelling.kleiber import fit_envelope as fit_envelope
    from thermostats.modelling.kleiber import fit_kleiber as fit_kleiber
    from thermostats.modelling.lines import fit_line as fit_line
    from thermostats.modelling.matched import fit_matched as fit_matched
    from thermostats.modelling.measurements import fit_sources as fit_sources
    from thermostats.modelling.model_gains import gain_rows as gain_rows
    from thermostats.modelling.pairs import paired as paired
    from thermostats.modelling.shares import fit_share as fit_share
    from thermostats.modelling.specification import specification_curve as specification_curve
    from thermostats.modelling.transition import fit_transition as fit_transition
    from thermostats.plots.general import profile as profile
    from thermostats.plots.posterior import trajectories as trajectories
    from thermostats.reporting.report import report as report
    from thermostats.reporting.snapshot import citations as citations
    from thermostats.reporting.verdicts import findings as findings
    from thermostats.settings import options as options
    from thermostats.tables.export import contribute as contribute
    from thermostats.tables.export import export as export
    from thermostats.tables.join import forget as forget
    from thermostats.tables.join import join as join
    from thermostats.tables.model_rows import model_rows as model_rows
    from thermostats.tables.model_rows import prompt_rows as prompt_rows
    from thermostats.tables.reading import features as features
    from thermostats.tables.reading import load as load
    from thermostats.tables.reading import models as models
    from thermostats.tables.runs import run_id as run_id
    from thermostats.tables.store import check as check
    from thermostats.tables.tree_of_models import neighbour_joining as neighbour_joining
    from thermostats.tables.tree_of_models import tree as tree

__version__ = VERSION
__all__ = list(PUBLIC)
_INSTEAD = {"Fit": 'thermostats.load_fit("fit.nc")'}
"""Names that one may look for, and the call that does what they would."""


def __getattr__(name: str) -> Any:
    """Public functions are imported when first used, so that importing the package stays quick."""
    if name in (CLAIMS, STUDIES):
        return import_module(f"{__name__}.{name}")
    if name not in HOME and (study := find_study(name)):
        warn(f"thermostats.{name} is {study}.{name} now", DeprecationWarning, stacklevel=2)
        return getattr(import_module(study), name)
    if name not in HOME:
        from thermostats.errors import find_nearest  # noqa: PLC0415

        step = _INSTEAD.get(name) or (
            f"thermostats.{near}" if (near := find_nearest(name, HOME)) else ""
        )
        what = f"module 'thermostats' has no attribute {name!r}; it has {', '.join(HOME)}"
        raise AttributeError(what + f". Next: {step}" * bool(step))
    globals()[name] = import_public(HOME[name], name, __name__)
    return globals()[name]


def import_public(module: str, name: str, home: str) -> Any:
    """What a module has by a name, as its users know it: a function whose wrong calls are refused
    in words, and that belongs to the package which is its home."""
    try:
        public = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        from thermostats.errors import build_missing_error  # noqa: PLC0415

        what = f"{home}.{name} needs torch and transformers"
        raise build_missing_error(error, what) or error from error
    if isfunction(public):
        from thermostats.next_steps import wrap_function  # noqa: PLC0415

        public = wrap_function(public)
        public.__module__, public.__qualname__ = home, name  # where pickle finds it
    return public


def __dir__() -> list[str]:
    return sorted(__all__)
