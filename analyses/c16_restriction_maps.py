"""C16: restriction maps ρ_ij = √A_ij W_V contract before L* and expand after."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import EVERY, Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, AtLeast, Decide, Posterior, V
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import MUTED, forest, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026 import restriction_maps as maps
from thermostats.studies.delia2026.anomalies import follows
from thermostats.studies.nursery.rows import at_the_end
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import short_name

LEAST_TRAINED, SEED = 24, 16
SHARE, SHOWN = V("share of models that show the pattern"), V("models that show the pattern")
CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Measure:
    """A norm of the restriction maps."""

    id: str
    column: str
    words: str


RELATIVE = Measure("relative", "contraction_ratio", "norm relative to W_V")
ABSOLUTE = Measure("absolute", "operator_norm", "operator norm")
TRAINED = [replace(one, id=f"trained_{one.id}") for one in (RELATIVE, ABSOLUTE)]


@CLAIM.finding(
    "contraction",
    primary=Decide(SHARE.lower > 0.5, SHOWN <= 0),
    needs=AtLeast(rows={"models measured with W_V itself": 1}),
    over=(RELATIVE, ABSOLUTE),
)
def contraction(evidence: Evidence, measure: Measure) -> Result:
    """The study's own model, before and after L* by each of its definitions."""
    curve, layers, model = maps.published(evidence)
    table = maps.before_and_after(curve, layers, measure.column)
    sliced = maps.not_W_V(evidence)
    judged = pd.DataFrame({"model_id": [] if sliced and measure == ABSOLUTE else [model["model_id"]]})
    shown = int(table["shows_it"].any())
    share = proportion(shown, 1)
    audit, lost, every = maps.maps_audit(evidence)

    def draw(axes: Axes) -> None:
        axes.plot(curve["layer"], curve[measure.column], marker="o", label=short_name(model["model_id"]))
        reference(axes, 1.0, text="1")
        for dash, row in zip((":", "--", "-."), table.itertuples(), strict=False):
            axes.axvline(row.L_star, color=MUTED, linestyle=dash, linewidth=1, label=f"L*, {row.definition}")
        axes.set(xlabel="layer l", ylabel=f"{measure.words}, mean over edges")
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0.94))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        log_axis(axes, "y")

    return Result(
        quantities={
            "mean before L*": Estimate(float(table["before"].iloc[0])),
            SHARE.name: Estimate(share.estimate, share.lower, share.upper),
            SHOWN.name: Estimate(shown),
        },
        rows={"models measured with W_V itself": judged},
        n_models=1,
        n_groups=1,
        table=table,
        draw=draw,
        audit=audit,
        words={
            "first": table.iloc[0],
            "table": table,
            "largest": float(curve[measure.column].max()),
            "model": model,
            "sliced": sliced,
            "lost": lost,
            "layers": every,
            "follows": follows(evidence, maps.SOURCE),
        },
    )


@CLAIM.finding(
    "contraction",
    primary=Above(SHARE.name, 0.5),
    robustness=Posterior("share > 0.5"),
    evidence=NURSERY,
    needs=AtLeast(models=LEAST_TRAINED),
    over=TRAINED,
    section="trained",
)
def trained(evidence: Evidence, measure: Measure) -> Result:
    """Models trained here, with the right W_V; models measured here that others trained are shown."""
    models = evidence.table("models", source=NURSERY)
    table = maps.patterns(maps.by_layer(at_the_end(evidence, "attention")), models, measure.column)
    if len(table) < LEAST_TRAINED:
        return Result.of(table, {}, words={"least": LEAST_TRAINED})
    every = evidence.named(EVERY)
    others = maps.by_layer(every.table("attention", variant="exact"))
    shown = int(table["shows_it"].sum())
    share = proportion(shown, len(table))
    middle = maps.over_models(table)

    def draw(axes: Axes) -> None:
        forest(middle, axes, label="row", null=1.0)
        axes.set_xlabel(f"{measure.words}, mean over edges: median and 90 % of models")
        log_axis(axes, "x")

    return Result.of(
        table,
        {SHARE.name: Estimate(share.estimate, share.lower, share.upper, f"{share.interval}, 95 %", share.p_value)},
        draw=draw,
        fit=fit_share(table, "shows_it", sources=[NURSERY], seed=SEED),
        fit_tables=("groups",),
        words={
            "shown": shown,
            "largest": float(table["largest"].max()),
            "at_minimum": middle[middle["definition"] == "minimum"].set_index("part")["estimate"],
            "others": maps.patterns(others, every.table("models"), measure.column),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
