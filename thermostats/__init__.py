"""Statistical modelling and hypothesis testing of residual-stream gains in transformers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thermostats.claims.study import import_published as import_published
    from thermostats.measurement.execute import measure as measure
    from thermostats.reporting.citing import citations as citations
    from thermostats.reporting.report import report as report
    from thermostats.tables.export import export as export
    from thermostats.tables.features import features as features
    from thermostats.tables.join import join as join
    from thermostats.tables.runs import run_id as run_id
    from thermostats.tables.store import check as check
    from thermostats.tables.store import load as load

__version__ = "0.1.0"

_HOME = {
    "check": "thermostats.tables.store",
    "citations": "thermostats.reporting.citing",
    "export": "thermostats.tables.export",
    "features": "thermostats.tables.features",
    "import_published": "thermostats.claims.study",
    "join": "thermostats.tables.join",
    "load": "thermostats.tables.store",
    "measure": "thermostats.measurement.execute",
    "report": "thermostats.reporting.report",
    "run_id": "thermostats.tables.runs",
}
__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Public functions are imported when first used, so that importing the package stays quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'thermostats' has no attribute {name!r}; it has {', '.join(_HOME)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
