"""Mean spectral norms of W_V and W_O in the study's summary, by model, with their gains; what was cut for W_V."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.studies.delia2026.gains import gains
from thermostats.studies.delia2026.late_layers import MEANS, SUMMARY
from thermostats.studies.delia2026.stated import stated

W_V, CUT = MEANS
W_O = "W_O_spectral_norm_mean"
STATED = {"ratio of W_V norms, EleutherAI to Meta": "section 4.3"}
LABS = ("EleutherAI", "Meta")


def norms_and_gains(tables: Evidence) -> pd.DataFrame:
    """One row a model: mean norms of W_V and W_O over layers, whether the published matrix is W_V, and its gain."""
    rows = tables.table("summaries", source=SUMMARY, estimand=[W_V, CUT, W_O])
    wide = rows.pivot(index="model_id", columns="estimand", values="value").reindex(columns=[W_V, CUT, W_O])
    table = pd.DataFrame({"W_V": wide[W_V].fillna(wide[CUT]), "W_O": wide[W_O], "right_matrix": wide[W_V].notna()})
    table["ratio"] = table["W_V"] / table["W_O"]
    known = gains(tables).set_index("model_id")
    labs = tables.table("models").set_index("model_id")[["heritage", "family"]]
    return table.join(labs).join(known[["gain", "lower", "upper", "comparable"]]).reset_index()


def value_norm_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean norm of W_V of one lab over that of the other, right matrix or not; `rows` from `norms_and_gains`."""
    means = rows.groupby("heritage")["W_V"].mean()
    return Audit(stated(tables, STATED), dict.fromkeys(STATED, float(means[LABS[0]] / means[LABS[1]])))
