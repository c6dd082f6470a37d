"""N04: the sign of the gain is fixed early in training, and tuning cannot change it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import PUBLISHED, Claim, Estimate, Evidence, Result, TooFew, Trial
from thermostats.claims.rule import AtLeast, Decide, Each, Given, Posterior, Some, V
from thermostats.claims.worlds import World, worlds_of_groups, worlds_of_line, worlds_of_share
from thermostats.modelling.classical.counts import clustered_share, proportion
from thermostats.modelling.fit import Fit
from thermostats.modelling.pairs import changes_sides, fit_invariance
from thermostats.plots.general import slopes
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import TWIN
from thermostats.studies.nursery import glance, second, third
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, SHALLOW, checkpoints
from thermostats.studies.nursery.second import CHOSEN, HALF_WITH_CHOSEN, early_and_late
from thermostats.studies.nursery.shipped import SHARES
from thermostats.studies.nursery.signs import (
    HALF,
    KAPPA,
    RARE,
    RARER,
    R,
    by_ranks,
    development,
    draw_training,
    fixed_from,
    gains_of_pairs,
    log_gains,
    log_ratios,
    pair_table,
    ranked_in,
    standard_errors,
)
from thermostats.tables.prompt_rows import gain_by_prompt
from thermostats.tables.vocabulary import NURSERY

SEED = 104
GAIN = "last_gain"
ALPHA, MOST_FLIPS, NEGLIGIBLE = 0.05, 0.10, 0.05
SETTLED = "the gain at a tenth of training goes with that at the end"
FIXED = 0.9
"""Correlation with the end that is called fixed; the null is 0, what chance keeps."""
CELL = ["n_layers", "rho", "d_model"]
PAIRS_WITHOUT_A_FLIP = int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS)))
"""Pairs without a flip that an upper limit below MOST_FLIPS takes."""
CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Moment:
    """A share of training, in words, and the factor of the recipe that colours its figure."""

    id: str
    share: float
    words: str
    factor: str


MOMENTS = (Moment("tenth", 0.1, "10% of training", "init"), Moment("start", 0.0, "initialisation", "optimiser"))


def at(logs: pd.DataFrame) -> tuple[float, float] | None:
    """Shares of models whose sign is final from a tenth of training, and from its start; None without models."""
    fixed = fixed_from(logs)
    return (float(fixed[0.1].mean()), float(fixed[0.0].mean())) if len(logs) else None


@CLAIM.shared
def trained(evidence: Evidence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Log gains by share of training, and the models that they are of."""
    rows = checkpoints(evidence)
    logs, models = with_models(rows[rows["comparable"]], GAIN)
    return logs, ENOUGH.of(models)


def with_models(rows: pd.DataFrame, gain: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Log gains by share of training, and models with the cell of the design that holds all of the shape."""
    logs = log_gains(rows, gain)
    models = rows[~rows["tuned"]].drop_duplicates("model", keep="last").set_index("model").loc[logs.index].reset_index()
    return logs, models.assign(cell=models[CELL].astype(str).agg(" ".join, axis=1))


def early_and_end(logs: pd.DataFrame, models: pd.DataFrame, share: float) -> pd.DataFrame:
    """Log gains at a share of training and at the end."""
    rows = models.filter(["model_id", "recipe", "heritage", "cell", "study"])
    return rows.assign(early=logs[share].to_numpy(), end=logs.iloc[:, -1].to_numpy())


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the rank of the early gain off the mean rank of its cell."""
    return rows.assign(ranked=ranked_in(rows["early"], rows["cell"]))


def at_moment(evidence: Evidence, moment: Moment) -> pd.DataFrame:
    """Last gains of the first study at a moment and at the end."""
    return ranked(early_and_end(*trained(evidence), moment.share))


def of_both(evidence: Evidence) -> pd.DataFrame:
    """Penultimate gains at a tenth of training and at the end, models of both studies; cells of a study and corpus."""
    later = HALF_WITH_CHOSEN.of(early_and_late(evidence)).assign(study="second")
    rows = checkpoints(evidence)
    deep = rows[rows["comparable"] & (rows["n_layers"] > SHALLOW)]
    logs, models = with_models(deep, "penultimate_gain")
    cell = "first " + models["cell"] + " " + models["corpus"].astype(str)
    first = early_and_end(logs, models.assign(cell=cell, study="first"), 0.1)
    return ranked(pd.concat([first, later[list(first)]], ignore_index=True))


PREDICTS = Decide((R.p <= ALPHA) & (R.lower > HALF), R.upper < HALF)
FREE = 5 / 8
"""Share of the errors' variance that lies inside the cells of the design: 24 cells of 64 models."""


def inside(r: float) -> World:
    """A world in which a moment goes with the end at r inside cells, which needs less over all rows."""
    over_all = (r**2 * FREE / (1 - r**2 * (1 - FREE))) ** 0.5
    return replace(worlds_of_line("end", "ranked", over_all)[0], words=f"correlation {r:g} inside cells, normal errors")


AT_HALF = replace(inside(HALF), id="half", holds=False, declared=False)
WORLDS = (inside(FIXED), AT_HALF, *worlds_of_line("end", "ranked", FIXED)[1:])


def crossed(evidence: Evidence) -> pd.DataFrame:
    """Log gains of the third study at a tenth of training and at the end."""
    return third.HALF.of(third.early_and_late(evidence))


@CLAIM.finding(
    "third",
    primary=Given(RARE >= RARER, Decide(R.lower > HALF, R.upper < HALF)),
    trial=Trial(crossed, by_ranks, "recipe", worlds_of_line("end", "ranked", FIXED), version=2),
    **third.STUDY,
)
def of_third_study(evidence: Evidence) -> Result:
    """Does a tenth of training go with the end, among models of one shape and corpus, in four corpora?"""
    rows = crossed(evidence)
    table = along_training(partial(third.early_and_late, evidence), third.SHARES)
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "by": {third.IN_WORDS[str(name)]: of_corpus(own) for name, own in rows.groupby("trained_on")},
        "on": {words: of_corpus(third.early_and_late(evidence, on=name)) for name, words in third.IN_WORDS.items()},
    }
    return replace(by_ranks(rows), table=table, words=words, draw=partial(glance.settling, table))


def of_corpus(rows: pd.DataFrame) -> dict[str, float | None]:
    """Models on either side at the end, those that kept their side, and the correlation; of one corpus."""
    found = by_ranks(rows).quantities[R.name]
    ends = {"r": found.value, "lower": found.lower, "upper": found.upper}
    kept = int(((rows["early"] > 0) == (rows["end"] > 0)).sum())
    return {**ends, "models": len(rows), "dampen": int((rows["end"] < 0).sum()), "kept": kept}


@CLAIM.finding(
    "together",
    primary=Given(RARE >= RARER, Decide(R.lower > HALF, R.upper < HALF)),
    trial=Trial(of_both, by_ranks, "recipe", worlds_of_line("end", "ranked", FIXED), version=2),
    statement=SETTLED,
    evidence=NURSERY,
    needs=HALF_WITH_CHOSEN,
)
def of_both_studies(evidence: Evidence) -> Result:
    """Does a tenth of training go with the end, among models of one shape and study?"""
    rows = of_both(evidence)
    return replace(by_ranks(rows), draw=partial(glance.early_and_late, rows))


def moments(evidence: Evidence) -> pd.DataFrame:
    """Log gains at a tenth of training and at the end."""
    return HALF_WITH_CHOSEN.of(early_and_late(evidence))


@CLAIM.finding(
    "second",
    primary=Given(RARE >= RARER, Decide(R.lower > HALF, R.upper < HALF)),
    trial=Trial(moments, by_ranks, "heritage", worlds_of_line("end", "ranked", FIXED), version=2),
    statement=SETTLED,
    evidence=NURSERY,
    needs=HALF_WITH_CHOSEN,
)
def of_second_study(evidence: Evidence) -> Result:
    """Does the gain at a tenth of training go with that at the end, among models of one shape?"""
    rows = moments(evidence)
    found, table = by_ranks(rows), along_training(partial(early_and_late, evidence), SHARES[:-1])
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "chosen": int(((rows["end"] < 0) & rows["recipe"].str.startswith(CHOSEN)).sum()),
    }
    return replace(found, table=table, words=words, draw=partial(glance.settling, table))


def along_training(at_share: Callable[[float], pd.DataFrame], shares: Sequence[float]) -> pd.DataFrame:
    """By share of training: models that dampen, correlation with the end inside cells and κ, with their intervals."""
    rows = []
    for share in shares:
        if (own := at_share(share)).empty:
            continue
        known = by_ranks(own).quantities
        row: dict[str, float | None] = {"share": share, "models": len(own), "dampen": int((own["early"] < 0).sum())}
        for name, q in (("r", known[R.name]), ("kappa", known[KAPPA])):
            row |= {name: q.value, f"{name}_lower": q.lower, f"{name}_upper": q.upper}
        rows.append(row)
    return pd.DataFrame(rows)


@CLAIM.finding(
    "sign",
    primary=Given(RARE >= RARER, PREDICTS),
    over=MOMENTS,
    trial=Trial(at_moment, by_ranks, "recipe", WORLDS),
    **CONTROLLED,
)
def sign(evidence: Evidence, moment: Moment) -> Result:
    """Does the log gain go with that at the end, among models of one shape?"""
    logs, models = trained(evidence)
    deep = checkpoints(evidence)[lambda rows: rows["comparable"] & (rows["n_layers"] > SHALLOW)]
    table = development(logs, models["recipe"])
    clear = (np.abs(np.log(models[f"{GAIN}_geometric"])) > 2 * standard_errors(models, GAIN)).to_numpy()
    found = by_ranks(at_moment(evidence, moment))
    return replace(
        found,
        table=table if moment.share else None,
        draw=partial(draw_training, logs, models, moment.factor),
        words={
            "row": table.set_index("share").loc[moment.share],
            "learned": at(logs[models["learned"].astype(bool).to_numpy()]),
            "clear": at(logs[clear]),
            "penultimate": at(log_gains(deep, "penultimate_gain")),
            "dampen": int((logs.iloc[:, -1] < 0).sum()),
        },
    )


@CLAIM.shared
def gains(evidence: Evidence) -> pd.DataFrame:
    """Gains by prompt of trained models and of the same trained on, on the other corpus."""
    rows = gains_of_pairs(evidence, GAIN)
    return rows[rows["norm_place"] != "post"].reset_index(drop=True)


@CLAIM.shared
def pairs(evidence: Evidence) -> pd.DataFrame:
    """One row per pair."""
    table = pair_table(gains(evidence), seed=SEED)
    if 2 * len(table) < PAIRS.models:
        raise TooFew(Result(n_models=2 * len(table)))
    return table


@CLAIM.shared
def fit_pairs(evidence: Evidence) -> Fit:
    """The model of all pairs."""
    return fit_invariance(gains(evidence), margin=1 + NEGLIGIBLE, seed=SEED)


FLIPS, RATIO = V("pairs that change sides"), V("ratio")
CANNOT = Decide((FLIPS <= 0) & (V("share of flips").upper < MOST_FLIPS), FLIPS > 0)
NO_FLIP = Posterior("no pair changes the sign of its mean log gain", refuted=FLIPS > 0)
SOME_MOVES = Posterior(f"some pair changes by more than {NEGLIGIBLE:.0%}")
MOVED = Decide(
    Some("pairs", RATIO.p <= ALPHA, adjust="holm"),
    Each("pairs", (RATIO.lower > 1 - NEGLIGIBLE) & (RATIO.upper < 1 + NEGLIGIBLE)),
)
PAIRS = AtLeast(models=16)
SOME, MANY, SHOULD = 0.01, 0.10, 0.20
"""Crossings in more than 1% are some; in fewer than 10% tuning as good as never crosses; 20% should be found."""
TUNED, CROSSED = AtLeast(models=40), V("share of pairs that cross 1")
BETWEEN = 0.2
"""Share of the variance of log ratios between pairs that would be of interest: pairs that change by 9% where prompts
differ by 18%; the null is none, so that a recipe that does differ is no world of it."""
CHANGES = [world for world in worlds_of_groups("log_ratio", "pair", BETWEEN, 0.0) if world.id != "one outlying lab"]


def by_flips(table: pd.DataFrame) -> Result:
    """Pairs whose intervals lie on both sides of 1."""
    flips = int(table["flips"].sum())
    share = Estimate.of(proportion(flips, len(table)), "Clopper–Pearson exact interval, 95%")
    return Result.of(table, {"share of flips": share, FLIPS.name: Estimate(flips)}, n_models=2 * len(table))


@CLAIM.finding(
    "tuning.sign",
    primary=CANNOT,
    robustness=NO_FLIP,
    trial=Trial(pairs, by_flips, "", worlds_of_share("flips", 0.0, MOST_FLIPS), "pair"),
    evidence=NURSERY,
    needs=PAIRS,
)
def tuning_sign(evidence: Evidence) -> Result:
    """Does any tuned model stand on the other side of 1 than the model it was tuned from?"""
    table, fit = pairs(evidence), fit_pairs(evidence)
    published = evidence.named(PUBLISHED)
    models = published.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    before = pair_table(gain_by_prompt(published, GAIN, TWIN).merge(models, on="model_id"), seed=SEED)
    flips, shown = int(table["flips"].sum()), table.assign(pair=table["model_id"].str.removeprefix(f"{NURSERY}/"))

    def draw(axes: Axes) -> None:
        own = shown.drop(columns="heritage")
        before, after = ([f"{when}_{part}" for part in ("gain", "lower", "upper")] for when in ("base", "tuned"))
        slopes(own, axes, before=before, after=after, label="pair", names=("trained", "tuned"))
        log_axis(axes, "y")
        axes.set_ylabel("last gain, geometric mean over prompts")

    both = [table.assign(study="here, by design"), before.assign(study="published, C11")]
    return replace(
        by_flips(table),
        table=pd.concat(both, ignore_index=True),
        draw=draw,
        fit=fit,
        fit_tables=("pairs", "new_pair", "shown"),
        statements={NO_FLIP.statement: lambda q: ~changes_sides(q).any(axis=-1)},
        words={
            "flips": flips,
            "pairs": len(table),
            "by_means": int(table["other_side"].sum()),
            "dampened": int((table["base_upper"] < 1).sum()),
            "expanded": int((table["base_lower"] > 1).sum()),
            "published": len(before),
            "published_flips": int(before["flips"].sum()),
            "published_change": float(np.exp(np.log(before["ratio"]).abs().max())),
            "change": float(np.exp(np.log(table["ratio"]).abs().max())),
            "needed": PAIRS_WITHOUT_A_FLIP,
        },
    )


def ratios(evidence: Evidence) -> pd.DataFrame:
    """Log ratios by pair and prompt, of pairs that are enough."""
    return log_ratios(gains(evidence)) if len(pairs(evidence)) else pd.DataFrame()


def by_prompts(rows: pd.DataFrame) -> Result:
    """Ratio of every pair with its t interval over prompts, Bonferroni over pairs."""
    by = rows.groupby("pair")["log_ratio"]
    table = pd.DataFrame({"mean": by.mean(), "error": by.sem(), "df": by.size() - 1})
    level = 1 - ALPHA / len(table)
    off = stats.t.ppf((1 + level) / 2, table["df"]) * table["error"]
    table = table.assign(
        **{f"ratio{end}": np.exp(table["mean"] + k * off) for end, k in (("", 0), ("_lower", -1), ("_upper", 1))}
    )
    table = table.assign(p=2 * stats.t.sf(np.abs(table["mean"] / table["error"]), table["df"])).reset_index()
    most = table.loc[table["p"].idxmin()]
    interval = f"paired t interval of the log ratio over prompts, {100 * level:.1f}%"
    clearest = Estimate(most["ratio"], most["ratio_lower"], most["ratio_upper"], interval, most["p"])
    moved = int(((table["ratio_lower"] > 1) | (table["ratio_upper"] < 1)).sum())
    words = {"moved": moved, "pairs": len(table), "most": most["pair"]}
    return Result.of(rows, {"ratio": clearest}, n_models=2 * len(table), table=None, rows={"pairs": table}, words=words)


@CLAIM.finding(
    "tuning.magnitude",
    primary=MOVED,
    robustness=SOME_MOVES,
    trial=Trial(ratios, by_prompts, "pair", tuple(CHANGES), "pair"),
    evidence=NURSERY,
    needs=PAIRS,
)
def tuning_magnitude(evidence: Evidence) -> Result:
    """By how much does tuning change the gain?"""
    found, fit = by_prompts(ratios(evidence)), fit_pairs(evidence)
    statements = {SOME_MOVES.statement: lambda q: (np.abs(q["ratio"] - 1) > NEGLIGIBLE).any(axis=-1)}
    return replace(found, fit=fit, fit_tables=("pairs",), statements=statements)


def tuned(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model of the second study."""
    return TUNED.of(second.pairs(evidence))


def tuned_of_third(evidence: Evidence) -> pd.DataFrame:
    """The same of the third."""
    return TUNED.of(third.pairs(evidence))


def by_bases(rows: pd.DataFrame) -> Result:
    """Share of pairs that cross 1 clearly."""
    return Result.of(rows, {CROSSED.name: Estimate.of(clustered_share(rows["flips"], rows["pair"]))})


CAN_CROSS = Decide(CROSSED.lower > SOME, CROSSED.upper < MANY)


def crossings(rows: pd.DataFrame) -> dict[str, Any]:
    """Pairs that cross 1 by kind, of how many bases, and from how far."""
    crossing = rows[rows["flips"]]
    far = crossing["base"].abs()
    within = rows["base"].abs() <= (far.max() if len(far) else 0)
    return {
        "flips": len(crossing),
        "pairs": len(rows),
        "kinds": rows.groupby("kind")["flips"].agg(["sum", "size"]).to_dict("index"),
        "bases": rows["pair"].nunique(),
        "crossed": crossing["pair"].nunique(),
        "dampened": int(rows.drop_duplicates("pair")["dampens"].sum()),
        "downwards": int((crossing["base"] > 0).sum()),
        "farthest": float(np.exp(crossing["base"].loc[far.idxmax()])) if len(far) else None,
        "as_near": int(within.sum()),
    }


@CLAIM.finding(
    "third_tuning",
    primary=CAN_CROSS,
    trial=Trial(tuned_of_third, by_bases, "", worlds_of_share("flips", SHOULD, 0.0, "pair"), "pair"),
    evidence=NURSERY,
    needs=TUNED,
)
def tuning_of_third(evidence: Evidence) -> Result:
    """Can tuning cross 1, and from how far?"""
    rows = tuned_of_third(evidence)
    words = crossings(rows) | {"on_new": int(rows["flips_on_new"].sum())}
    return by_bases(rows).adding(words=words, draw=partial(glance.tuned, rows))


@CLAIM.finding(
    "tuning.share",
    primary=CAN_CROSS,
    trial=Trial(tuned, by_bases, "", worlds_of_share("flips", SHOULD, 0.0, "pair"), "pair"),
    evidence=NURSERY,
    needs=TUNED,
)
def tuning_share(evidence: Evidence) -> Result:
    """Can tuning cross 1?"""
    rows = tuned(evidence)
    return by_bases(rows).adding(words=crossings(rows))


if __name__ == "__main__":
    CLAIM.main()
