"""C20: cumulative energy: every family amplifies net.

Claim: the product of gains over the network is above 1 in every family.
Estimand: net amplification of a model over its blocks, without block 1 (which lifts the embedding into the stream) and
without the final norm: n_L/n_1 at the last token where blocks were measured, else n_(L-1)/n_1. Apart: the study's own
product, which runs over block 1 and the final norm and pools all tokens.
Rule: unit is the family. Against where a comparable model lies below 1 (its whole 95 % interval over prompts, where
there are prompts); supported where every comparable model lies above 1 and the exact 95 % interval of the share of
families that amplify lies above one half; otherwise inconclusive. Models that norm after the residual sum are not
comparable: their norms are pinned by construction; they are shown. Beside it the posterior of the share of families
that amplify, families of one lab alike: supported where P(share > 1/2) is at least 0.95, not supported where at most
0.05. The claim has the verdict that both come to, and is inconclusive where they differ or where a check fails.
Source: 4model_validation_results; last-gain and penultimate-gain files.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, SURE
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.classical.means import one_sample
from thermostats.modelling.laws.share import fit_share
from thermostats.plots.general import forest
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import LAST_GAIN_FILES, gain_by_prompt, one_run_each
from thermostats.studies.delia2026.evidence import FOUR, gains, stated_by_model
from thermostats.words import number, short_name

OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm; the published products have it in every factor."""
BY_MODEL = {
    "product of {}": r"/results/[^/]+/final_cumulative",
    "{}, % of gains below 1": r"/results/[^/]+/contracting_pct",
    "{}, % of gains from 1 on": r"/results/[^/]+/expanding_pct",
}
SEED = 20
INTERVAL = "Clopper–Pearson exact interval of the share of families, 95 %"

CLAIM = Claim(
    id="C20",
    title="Cumulative energy: every family amplifies net",
    said="Multiplied over the layers, gains amplify in every family: 4 models, products of 124 to 17,212.",
    estimand="net amplification over the blocks 2 to L (or L − 1) at the last token, by family",
    rule="Against where a comparable model's amplification lies below 1; supported where all lie above 1 and the "
    "exact 95 % interval of the share of amplifying families lies above one half. Unit: the family. Beside it the "
    "posterior of that share; the verdict is what both come to.",
    source="4model_validation_results; files of last and penultimate gains",
    rows="study",
)


def amplification(tables: Evidence) -> pd.DataFrame:
    """One row a model: n_L/n_1 over prompts where measured, else n_(L-1)/n_1 of the mean gains, at the last token."""
    rows = one_run_each(gain_by_prompt(tables, "total_amplification", *LAST_GAIN_FILES), LAST_GAIN_FILES)
    models = []
    for (model, heritage, family), r in rows.groupby(["model_id", "heritage", "family"]):
        d = one_sample(r["value"], against=1, log=True, seed=SEED)
        models.append(
            {
                "model_id": model,
                "heritage": heritage,
                "family": family,
                "what": "n_L/n_1",
                "amplification": d.ratio,
                "lower": d.ratio_lower,
                "upper": d.ratio_upper,
                "comparable": True,
            }
        )
    known = {str(m["model_id"]) for m in models}
    others = gains(tables)
    others = others[~others["model_id"].isin(known) & others["total_to_penultimate"].notna()]
    rest = others[["model_id", "heritage", "family", "comparable"]].assign(
        what="n_(L-1)/n_1", amplification=others["total_to_penultimate"]
    )
    both = pd.concat([pd.DataFrame(models), rest], ignore_index=True)
    depth = tables.table("models").set_index("model_id")["n_layers"].astype(float)
    both["over_root_of_L"] = both["amplification"] / np.sqrt(both["model_id"].map(depth))
    return both.sort_values("amplification", ascending=False, ignore_index=True)


def published_product(tables: Evidence) -> pd.DataFrame:
    """The study's product and its parts, all tokens pooled: with and without block 1 and the final norm."""
    layers, summaries = tables.table("layers", source=FOUR), tables.table("summaries", source=FOUR)
    normed = summaries[summaries["estimand"] == "normed_gain_all_tokens"].set_index("model_id")["value"]
    rows = []
    for (model, heritage, family), r in layers.groupby(["model_id", "heritage", "family"]):
        g = r.sort_values("layer")["gain_block"].dropna().to_numpy(float)
        every = np.append(g, normed[model])
        whole = float(np.prod(every))
        rows.append(
            {
                "model_id": model,
                "heritage": heritage,
                "family": family,
                "amplification": whole,
                "comparable": True,
                "as_published": float(np.prod(every + OFFSET)),
                "below_1": 100 * float(np.mean(every < 1)),
                "of_block_1": g[0],
                "without_block_1": whole / g[0],
                "blocks_2_to_before_last": float(np.prod(g[1:])),
            }
        )
    return pd.DataFrame(rows).sort_values("amplification", ascending=False, ignore_index=True)


def judge(table: pd.DataFrame) -> tuple[str, int, int, float, float]:
    """Verdict, families that amplify and all families, and the exact interval of their share."""
    fair = table[table["comparable"]]
    upper = fair.get("upper", pd.Series(np.nan, fair.index)).fillna(fair["amplification"])
    lower = fair.get("lower", pd.Series(np.nan, fair.index)).fillna(fair["amplification"])
    families = (lower > 1).groupby(fair["family"]).all()
    share = proportion(int(families.sum()), len(families))
    verdict = AGAINST if (upper < 1).any() else SUPPORTED if families.all() and share.lower > 0.5 else OPEN
    return verdict, int(families.sum()), len(families), share.lower, share.upper


def analyse(tables: Evidence) -> list[Finding]:
    """Net amplification of every model, then the study's own product."""
    whole = as_published(published_product(tables))
    table = amplification(tables)
    return [with_share(table, every_model(table)), replace(whole, published=stated_by_model(tables, FOUR, BY_MODEL))]


def every_model(table: pd.DataFrame) -> Finding:
    """Does every family amplify over its blocks?"""
    verdict, amplify, n, low, high = judge(table)
    fair = table[table["comparable"]]
    least = fair.loc[fair["amplification"].idxmin()]
    over_root, under_root = float(fair["over_root_of_L"].median()), int((fair["over_root_of_L"] < 1).sum())
    left_out = [
        f"{short_name(r.model_id)} ({number(r.amplification)})" for r in table[~table["comparable"]].itertuples()
    ]

    def draw(axes: Axes) -> None:
        shown = table.assign(
            lower=table["lower"].fillna(table["amplification"]), upper=table["upper"].fillna(table["amplification"])
        )
        forest(shown, axes, label="model_id", estimate="amplification", heritage="heritage", null=1.0)
        axes.set_xlabel("net amplification over the blocks after the first (log scale)")
        log_axis(axes, "x")

    return Finding(
        claim="C20",
        estimand="share of families that amplify over the blocks after the first, every comparable model",
        verdict=verdict,
        plain=f"{amplify} of {n} families amplify over the blocks after the first, {len(fair)} models in all. "
        f"{SENTENCES[verdict]}: the smallest net amplification is {number(least['amplification'])} in "
        f"{short_name(least['model_id'])}, and the share of families that amplify lies between {number(low)} and "
        f"{number(high)}.",
        estimate=amplify / n,
        lower=low,
        upper=high,
        interval=INTERVAL,
        n_models=len(fair),
        n_heritages=fair["heritage"].nunique(),
        table=table,
        draw=draw,
        caption=f"Net amplification of {len(table)} models with 95 % intervals over prompts where there are prompts; "
        f"dashed line: 1. {amplify} of {n} families amplify.",
        notes=(
            *((f"Normed after the residual sum and not counted: {', '.join(left_out)}.",) if left_out else ()),
            "Amplification as such is weak evidence of anything learned: the stream of a pre-norm network gains a "
            "term in every block, and terms that were independent and of equal size would let n_L/n_1 grow as the "
            f"root of L. The median model amplifies {number(over_root)} times the root of its L and {under_root} of "
            f"{len(fair)} less than the root; that is a yardstick and no test, since terms are neither independent "
            "nor equal.",
            "Amplifications measured by prompt are geometric means over prompts; arithmetic ones are higher.",
        ),
    )


def with_share(table: pd.DataFrame, finding: Finding) -> Finding:
    """The finding on every family with the posterior of their share, families of one lab alike."""
    fair = table[table["comparable"]]
    lower = fair["lower"].fillna(fair["amplification"])
    families = fair.assign(amplifies=lower > 1).groupby(["heritage", "family"], as_index=False)["amplifies"].all()
    fit = fit_share(families.assign(model_id=families["family"]), "amplifies", sources=[CLAIM.source], seed=SEED)
    told = posterior_of(
        fit,
        model="Share of families all of whose comparable models amplify, families of one lab alike.",
        statement="share > 0.5",
        truth=fit.quantities["share"] > 0.5,
        rule=f"Against, whatever the posterior, where a model lies below 1; else supported where P(share > 0.5) is at "
        f"least {SURE:g}, not supported where it is at most {1 - SURE:.2g}.",
        verdict=AGAINST if finding.verdict == AGAINST else None,
        classical=finding.verdict,
        tables=["groups"],
    )
    return beside(finding, fit, told)


def figures(table: pd.DataFrame) -> dict[str, float]:
    """The figures of the file, by the names of `BY_MODEL`."""
    found: dict[str, float] = {}
    for row in table.itertuples():
        values = (row.as_published, row.below_1, 100 - row.below_1)
        names = (name.format(short_name(row.model_id)) for name in BY_MODEL)
        found |= {name: float(value) for name, value in zip(names, values, strict=True)}
    return found


def as_published(table: pd.DataFrame) -> Finding:
    """The study's product, over block 1 and the final norm, all tokens pooled."""
    verdict, amplify, n, low, high = judge(table)
    first = float((np.log(table["of_block_1"]) / np.log(table["amplification"])).median())
    smallest = table.loc[table["blocks_2_to_before_last"].idxmin()]

    def draw(axes: Axes) -> None:
        forest(
            table.assign(lower=table["without_block_1"], upper=table["amplification"]),
            axes,
            label="model_id",
            estimate="amplification",
            heritage="heritage",
            null=1.0,
        )
        axes.set_xlabel("product of all gains (point) and without block 1 (end of the bar); log scale")
        log_axis(axes, "x")

    return Finding(
        claim="C20",
        estimand="share of families whose product of all gains, block 1 and final norm in it, is above 1",
        verdict=verdict,
        plain=f"The study's product is above 1 in {amplify} of {n} families, one model each. {SENTENCES[verdict]} "
        f"for families at large, of which between {number(low)} and {number(high)} amplify; block 1 alone makes "
        f"{first:.0%} of the product on the log scale, and between block 1 and the block before the last "
        f"{short_name(smallest['model_id'])} amplifies by {number(smallest['blocks_2_to_before_last'])}.",
        estimate=amplify / n,
        lower=low,
        upper=high,
        interval=INTERVAL,
        n_models=len(table),
        n_heritages=table["heritage"].nunique(),
        table=table,
        draw=draw,
        reproduced=figures(table),
        caption=f"Product of all gains of {len(table)} models; the bar ends at the product without block 1. All "
        "tokens pooled, final norm included.",
        notes=(
            "The last factor runs over the final norm and the norms pool all tokens, the first among them, whose "
            "norm can be hundreds of times the others'.",
        ),
    )


if __name__ == "__main__":
    run(CLAIM, analyse)
