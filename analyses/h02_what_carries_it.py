"""H02: what carries what is inherited of the gain: the lab, the family, the tokenizer, the corpus, or the parent."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from thermostats.claims.worlds.descent import worlds_of_carriers

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    REPLICATED,
    Case,
    Claim,
    Estimate,
    Evidence,
    Result,
    TooFew,
    Trial,
    Views,
)
from thermostats.claims.descent import inherited
from thermostats.claims.noise import Noise, Rng
from thermostats.claims.rule import AtLeast, Decide, Each, Some, V
from thermostats.claims.worlds import TOTAL, World, searches_among
from thermostats.modelling.carriers import NONE, alike, leads, predicted
from thermostats.plots.general import drawing, forest
from thermostats.tables.model_rows import model_rows

ALPHA = 0.05
CLAIMED, STRONG = 0.6, 0.9
COLUMNS = {"log_L": "n_layers", "log_H": "n_heads", "log_d_h": "d_head", "log_n": "n_params"}
CARRIERS = ("lab", "family", "tokenizer", "corpus", "parent")
GAIN = Case("penultimate_gain", "penultimate gain", "penultimate_gain")
LEAD, RIVALS = V("lead"), "rivals"
CARRIES = Decide(Each(RIVALS, LEAD.interval > 0), Some(RIVALS, (LEAD < 0) & (LEAD.p <= ALPHA), adjust="holm"))
LEAST = AtLeast(models=10, groups=3)
VIEWS = Views(models=10, groups=3, sets=(PUBLISHED, EXTERNAL, REPLICATED, MEASURED))
CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence, gain: str) -> pd.DataFrame:
    """One row per model: log gain, logarithms of shape and size, and what it carries; facts not stated are empty."""
    rows = model_rows(evidence, gain)
    facts = rows[list(COLUMNS.values())].astype("float64")
    rows = rows.assign(**{name: np.log(facts[column]) for name, column in COLUMNS.items()})
    rows = rows[np.isfinite(rows[list(COLUMNS)]).all(axis=1)].reset_index(drop=True)
    kept = ["model_id", "heritage", "family", "source", "gain", "log_gain", *COLUMNS]
    return rows[kept].join(inherited(evidence, rows["model_id"]))


def carried(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Labels by carrier; a family is one of its lab, and where it is not stated a model is alone."""
    lab, family = rows["heritage"].astype(str), rows["family"].fillna("").astype(str)
    of_lab = (lab + " / " + family).where(family != "", "")
    return {
        "lab": list(lab),
        "family": list(of_lab),
        "tokenizer": list(rows["tokenizer"]),
        "corpus": list(rows["corpus"]),
        "parent": list(rows["ancestor"]),
    }


def sharing(labels: list[str]) -> int:
    """How many models share a label with another."""
    held = pd.Series(labels)
    return int((held.duplicated(keep=False) & (held != "")).sum())


def rows_of(carrier: str, evidence: Evidence, gain: Case) -> pd.DataFrame:
    """The rows that the rule reads; raises TooFew where no two models share the carrier."""
    rows = models(evidence, gain.column)
    if not sharing(carried(rows)[carrier]):
        raise TooFew(Result.of(rows))
    return rows


def compared(rows: pd.DataFrame, carrier: str) -> Result:
    """How much better a carrier predicts models left out one by one than each rival; the least lead heads it."""
    labels = carried(rows)
    x = np.column_stack([np.ones(len(rows)), rows[list(COLUMNS)].to_numpy(np.float64)])
    if np.linalg.matrix_rank(x) < x.shape[1] or len(rows) < x.shape[1] + 2:
        raise TooFew(Result.of(rows))
    density = predicted(rows["log_gain"].to_numpy(np.float64), x, labels, range(len(rows)))
    table = leads(density, carrier, dict(enumerate(rows["heritage"])))
    least = table.loc[table["lead"].idxmin()]
    kind = "95% t interval over labs"
    head = Estimate(float(least["lead"]), float(least["lower"]), float(least["upper"]), kind, float(least["p"]))
    return Result.of(rows, {LEAD.name: head}, rows={RIVALS: table}, words={"best": least["rival"]})


def drift(carrier: str, lam: float, rows: pd.DataFrame, noise: Noise, rng: Rng) -> pd.DataFrame:
    """Log gains of which a share λ is what models have of a carrier."""
    labels = [label or f"#{i}" for i, label in enumerate(carried(rows)[carrier])]
    codes = pd.factorize(pd.Series(labels))[0]
    shared = rng.standard_normal(codes.max() + 1)[codes]
    return rows.assign(log_gain=TOTAL * (lam**0.5 * shared + (1 - lam) ** 0.5 * noise(rows)))


def worlds_of(carrier: str) -> tuple[World, ...]:
    """Worlds in which it carries, a rival does, or nothing."""
    signals = {name: partial(partial, drift, name) for name in CARRIERS}
    return worlds_of_carriers(carrier, signals, CLAIMED, STRONG)


def answer(carrier: str, evidence: Evidence, gain: Case) -> Result:
    """One carrier against the others and none, with what is known of each."""
    rows = models(evidence, gain.column)
    labels = carried(rows)
    known = pd.DataFrame(
        [(name, len(set(filter(None, own))), sum(map(bool, own)), sharing(own)) for name, own in labels.items()],
        columns=["carrier", "values", "stated", "sharing"],
    ).set_index("carrier")
    twins = alike(labels).sort_values("both of either", ascending=False)
    words: dict[str, Any] = {"carrier": carrier, "known": known, "twins": twins, "best": ""}
    LEAST.of(rows, **words)
    if not sharing(labels[carrier]):
        raise TooFew(Result.of(rows, words=words))
    result = compared(rows, carrier)
    rivals = result.rows[RIVALS].rename(columns={"lead": "estimate"})
    shown = rivals.assign(rival=[f"over {name if name != NONE else 'no carrier'}" for name in rivals["rival"]])
    return result.adding(
        table=rows.drop(columns=list(COLUMNS)),
        draw=drawing(forest, shown, label="rival", null=0.0, xlabel=f"lead of the {carrier} in log predictive density"),
        words=words | {"best": result.words["best"]},
    )


for one in CARRIERS:
    CLAIM.finding(
        one,
        primary=CARRIES,
        over=(GAIN,),
        trial=Trial(
            partial(rows_of, one),
            partial(compared, carrier=one),
            "heritage",
            worlds_of(one),
            searches=searches_among(worlds_of(one), along="log_n", group=""),
        ),
        evidence=POOLED,
        needs=LEAST,
        views=VIEWS,
        section="carries",
    )(partial(answer, one))


if __name__ == "__main__":
    CLAIM.main()
