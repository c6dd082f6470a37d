"""What else N03 asks of the first study: a threshold on density, terms beyond straight lines, a mediator."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.claim import TooFew
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, Pick, V
from thermostats.modelling.classical.counts import classification_accuracy
from thermostats.modelling.classical.estimates import holm
from thermostats.studies.nursery.falling import ALPHA
from thermostats.studies.nursery.slopes import extra_terms, mediated

CUTS = {"lower": "section 7 lower", "upper": "section 7 upper"}
BEST = Pick("thresholds", largest="accuracy")
RARE, RARER = V("models on the rarer side"), 10
"""With fewer, always naming the commoner side can hardly be beaten. As in N04."""
BETTER = Decide(BEST.where(V("accuracy").p <= ALPHA), BEST.where(V("accuracy") <= V("majority")))


def by_cuts(rows: pd.DataFrame) -> Result:
    """Accuracy of each cut; that of the best, which the rule picks."""
    dampens = rows["log_side"] < 0
    rare = {RARE.name: Estimate(float(min(dampens.sum(), (~dampens).sum())))}
    if dampens.nunique() < 2:
        empty = {"thresholds": pd.DataFrame()}
        return Result.of(rows, rare, table=None, rows=empty, words={"one_side": True, "rare": 0})
    tried = {float(rows[name].iloc[0]): classification_accuracy(rows["rho"] >= rows[name], dampens) for name in CUTS}
    columns = ["cut", "accuracy", "p", "majority"]
    table = pd.DataFrame([(cut, t.estimate, t.p_value, t.majority) for cut, t in tried.items()], columns=columns)
    best = float(table.loc[table["accuracy"].idxmax(), "cut"])
    accuracy = Estimate.of(tried[best], p=tried[best].p_value, p_kind="one-sided p-value")
    words = {"one_side": False, "best": best, "found": tried[best], "rare": rare[RARE.name].value}
    return Result.of(rows, {"accuracy": accuracy, **rare}, table=None, rows={"thresholds": table}, words=words)


def by_terms(rows: pd.DataFrame) -> Result:
    """What a term adds, p after Holm over the four."""
    table = extra_terms(rows).set_index("what")
    adjusted, term = holm(table["p"].to_dict()), rows["term"].iloc[0]
    kind = "p-value, Holm over four terms"
    added = Estimate(float(table.loc[term, "gained"]), p=adjusted[term], p_kind=kind)
    return Result.of(rows, {"share of variance added": added}, table=None)


INDIRECT = V("indirect effect")


def by_trace(rows: pd.DataFrame) -> Result:
    """The part of the slope on log ρ that goes with the trace."""
    table = mediated(rows.assign(trace=np.exp(rows["log_trace"])), ("trace",))
    if table.empty:
        raise TooFew(Result.of(rows))
    main = table.iloc[0]
    indirect = Estimate(main["indirect"], main["lower"], main["upper"], f"95% {main['interval']}")
    return Result(
        quantities={INDIRECT.name: indirect},
        n_models=int(main["n_models"]),
        n_groups=int(main["groups"]),
        words={"main": main},
    )
