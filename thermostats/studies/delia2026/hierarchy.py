"""The published order of four models and of their families by last gain, and worlds in which two
causes are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from thermostats.claims.evidence import Evidence
from thermostats.claims.noise import ERRORS, Errors, Noise, Random
from thermostats.claims.question import Test
from thermostats.claims.result import Audit, Estimate, Result, TooFew
from thermostats.claims.worlds import (
    BETWEEN,
    EVERY,
    RATIO,
    TOTAL,
    Array,
    Outcomes,
    World,
    Worlds,
    build_cause_worlds,
    standardise_values,
)
from thermostats.formatting import format_declared, strip_owner
from thermostats.modelling.classical.many import Many
from thermostats.modelling.columns import read_numbers
from thermostats.modelling.heritage.variance_shares import (
    Blocks,
    estimate_share_table,
    estimate_share_tables,
    measure_signal_shares,
    name_shares,
)
from thermostats.studies.delia2026.stated_facts import (
    BENCHMARK,
    LEVEL,
    build_prompt_matrix,
    load_stated,
    load_stated_models,
    select_single_runs,
)

ANGLES = 91
"""Angles between 0 and 90° at which shares are computed; between them they are taken as
straight."""
AT_THE_BAR = "at the bar"
BOX: Mapping[str, tuple[float, ...]] = {
    "signal": (0.8, 0.95, 0.3),
    "tilt": (0.5, 0.0, 1.0),
    "families": BETWEEN,
    "ratio": RATIO,
}
"""At rest and at their bounds: the signal's share, the direction of columns, errors between
families, and their SD along the last column."""
NUISANCES = dict(  # noqa: C408 - names of parameters, no words
    signal="a share of {value} of the variance is signal",
    tilt="columns point in direction {value}",
    beside="lab effects make a share of {value} of the signal",
)
"""Those of this family alone in words."""


@dataclass(frozen=True)
class Boundary:
    """A comparison of blocks, and the causes whose mixture lies on its boundary.

    codings: ways to put columns into blocks, in each of which the first of `pair` must exceed the
    second by more than `margin`, a share of the whole variance; without a second it is a share
    alone. first, second: the causes that are mixed, groups whose levels add up, or columns: at tilt
    0 along the first, at tilt 1 the last, between them both, of random signs. `beside`: a share of
    lab effects in the signal, whatever the mixture.
    """

    outcome: str
    codings: tuple[Blocks, ...]
    pair: tuple[str, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    words: str
    large: Result
    """The rule's numbers at the boundary, in a sample without end."""
    margin: float = 0.0
    beside: float = 0.0

    def compare_signals(self, rows: pd.DataFrame, signals: Array, signal: float) -> Array:
        """What is compared for every signal (one a row), of the whole variance, in the coding where
        it is least."""
        differences = []
        for blocks in self.codings:
            shares = signal * measure_signal_shares(rows, signals, blocks)
            named = [shares[:, list(blocks).index(name)] for name in self.pair]
            differences.append(named[0] - named[1] if len(named) > 1 else self.margin - named[0])
        return np.asarray(
            np.min(differences, axis=0) - (self.margin if len(self.pair) > 1 else 0.0)
        )

    def draw_outcomes(
        self,
        signal: float,
        tilt: float,
        beside: float,
        rows: pd.DataFrame,
        noise: Noise,
        random: Random,
    ) -> Outcomes:
        """Outcomes with a signal on the boundary, and noise."""
        a, b = (
            self._build_cause(rows, cause, tilt, random)[:, None]
            for cause in (self.first, self.second)
        )
        lab = standardise_values(random.levels(rows, "heritage"))[:, None]
        errors = noise(rows)
        angles = np.linspace(0, np.pi / 2, ANGLES)[:, None]
        mixed = (1 - beside) ** 0.5 * (np.cos(angles) * a + np.sin(angles) * b) + beside**0.5 * lab
        compared = self.compare_signals(rows, mixed.reshape(-1, len(rows)), signal).reshape(
            mixed.shape[:2]
        )
        made = standardise_values(_find_zero(mixed, compared))
        return {self.outcome: TOTAL * (signal**0.5 * made + (1 - signal) ** 0.5 * errors)}

    def _build_cause(
        self, rows: pd.DataFrame, columns: Sequence[str], tilt: float, random: Random
    ) -> Array:
        if not pd.api.types.is_numeric_dtype(rows[columns[0]]):
            return standardise_values(
                np.sum([random.levels(rows, column) for column in columns], axis=0)
            )
        x = np.column_stack(
            [standardise_values(rows[column].to_numpy(np.float64)) for column in columns]
        )
        weights = np.cos(np.pi / 2 * (tilt * (x.shape[1] - 1) - np.arange(x.shape[1])).clip(-1, 1))
        return standardise_values((weights * random.signs(x.shape[1])) @ x.T)


def _find_zero(signals: Array, compared: Array) -> Array:
    """Of every study (study × angle) the signal between two neighbours where what is compared
    crosses 0.

    Where it never is above 0, the one where it is most; where it never falls to 0, the last.
    """
    falls = (compared[:, :-1] > 0) & (compared[:, 1:] <= 0)
    study = np.arange(len(signals))
    place = falls.argmax(axis=1)
    before = compared[study, place]
    after = compared[study, place + 1]
    part = np.divide(before, before - after, out=np.zeros_like(before), where=before > after)[
        :, None
    ]
    between = signals[study, place] + part * (signals[study, place + 1] - signals[study, place])
    most = signals[study, compared.argmax(axis=1)]
    above = (compared > 0).any(axis=1, keepdims=True)
    crossed = falls.any(axis=1, keepdims=True)
    return np.asarray(np.where(crossed, between, np.where(above, signals[:, -1], most)))


def build_worlds(
    boundary: Boundary,
    shares: Worlds,
    along: str,
    kinds: Sequence[str] = EVERY,
    **box: tuple[float, ...],
) -> Worlds:
    """A family of shares of causes with the boundary of their comparison among its sizes, and the
    boundary's nuisances.

    along: a column along which errors are uneven. box: nuisances that lie elsewhere, such as
    `beside`, the share of lab effects in the signal.
    """
    make = partial(_make_world, boundary, shares, along)
    others = {**shares.others, AT_THE_BAR: AT_THE_BAR}
    return replace(
        shares,
        make=make,
        box={**BOX, **box},
        kinds=tuple(kinds),
        others=others,
        nuisances=NUISANCES,
    )


def _make_world(
    boundary: Boundary,
    shares: Worlds,
    along: str,
    size: Any,
    *,
    kind: str,
    signal: float,
    tilt: float,
    families: float,
    ratio: float,
    beside: float | None = None,
) -> World:
    if size != AT_THE_BAR:
        return shares.make(size, kind=kind, between=families, ratio=ratio)
    beside = boundary.beside if beside is None else beside
    errors = Errors(kind, between=families, group="family", along=along, ratio=ratio)
    of_labs = f", lab effects of {beside:.0%} of it too" if beside else ""
    words = (
        f"{boundary.words}, a signal of {signal:.0%} of the variance{of_labs}, direction "
        f"{format_declared(tilt)}"
    )
    outcomes = partial(boundary.draw_outcomes, signal, tilt, beside)
    return World(f"{words}, {errors.words}", outcomes, errors, boundary.large)


ORDER = (
    "EleutherAI/pythia-6.9b",
    "mistralai/Mistral-7B-v0.1",
    "meta-llama/Llama-3.1-8B",
    "google/gemma-7b",
)
NAMES = ("Pythia", "Mistral", "LLaMA", "Gemma")
MEASUREMENTS = "measurements"
IN_THE_FILE = "mean of {}"

OVER_CATEGORIES = "ratio over categories"


def select_four(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the four models, one run each: of the published files that of the benchmark."""
    rows = select_single_runs(rows)
    return rows[rows["model_id"].isin(ORDER)].reset_index(drop=True)


def select_members(last: pd.DataFrame) -> pd.DataFrame:
    """One run of every measured model of the families in the order."""
    rows = select_single_runs(last)
    return rows[rows["family"].isin(rows.loc[rows["model_id"].isin(ORDER), "family"])].reset_index(
        drop=True
    )


def add_places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `select_members` with `place`, that of the model's family in the published order from
    0, and `log_gain`.

    Raises TooFew where one of the four models was not measured.
    """
    if not set(ORDER) <= set(rows["model_id"]):
        raise TooFew(
            Result(n_models=rows["model_id"].nunique(), n_groups=rows["heritage"].nunique())
        )
    families = rows.drop_duplicates("model_id").set_index("model_id")["family"]
    place = {family: k for k, family in enumerate(families[list(ORDER)])}
    return rows.assign(place=rows["family"].map(place), log_gain=np.log(rows["value"]))


def list_neighbours(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every model with every one of the next place: (lower, higher) as published."""
    models = rows.drop_duplicates("model_id").sort_values("model_id")
    groups = [list(of_place) for _, of_place in models.groupby("place")["model_id"]]
    return [pair for low, high in pairwise(groups) for pair in product(low, high)]


def check_means(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Means as the preprint and its file name them, and the number of measurements; `rows`: last
    gains by prompt."""
    four = build_prompt_matrix(select_four(rows))[list(ORDER)]
    published = load_stated(
        tables, {name: f"abstract (6) {name}" for name in (*NAMES, MEASUREMENTS)}
    )
    published |= load_stated_models(tables, BENCHMARK, {IN_THE_FILE: r"/base_levels/[^/]+"})
    means = four.mean()
    figures = dict(zip(NAMES, map(float, means), strict=True)) | {
        MEASUREMENTS: float(four.count().sum())
    }
    figures |= {
        IN_THE_FILE.format(strip_owner(model)): float(mean) for model, mean in means.items()
    }
    return Audit(published, figures)


def count_replicated(order: pd.DataFrame, rows: pd.DataFrame) -> int:
    """The most clear reversals among steps that share no model: what one model turns round
    counts once.

    Pairs join places that follow one another, so that models of even and of odd places are the
    sides of a graph.
    """
    against = order[order["ratio_upper"] < 1]
    if against.empty:
        return 0
    places = rows.drop_duplicates("model_id").set_index("model_id")["place"]
    even = against["lower"].map(places) % 2 == 0
    first = against["lower"].where(even, against["higher"])
    second = against["higher"].where(even, against["lower"])
    rows = pd.factorize(first)[0]
    columns = pd.factorize(second)[0]
    graph = csr_array((np.ones(len(against), dtype=bool), (rows, columns)))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


SEED = 4
ALPHA, MARGIN = 0.05, 0.05
"""Level of a block's own test, and the share of the variance below which size counts for almost
nothing."""
WEIGHT_COUNTS = {"without embeddings": "log_n", "all": "log_n_all"}
"""Ways to count weights, each with its column."""
HERITAGE = ("heritage",)
LINEAGE = ("heritage", "family")


@dataclass(frozen=True)
class Coding:
    """Which columns are called geometry and which scale."""

    id: str
    geometry: tuple[str, ...]
    scale: tuple[str, ...]

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """The blocks that are compared."""
        return {"heritage": HERITAGE, "geometry": self.geometry, "scale": self.scale}


CODINGS = (
    Coding("log L/d, log ρ | log N", ("log_shape", "log_rho"), ("log_n",)),
    Coding("log L, log ρ | log d", ("log_L", "log_rho"), ("log_d",)),
    Coding("log ρ | log L, log d", ("log_rho",), ("log_L", "log_d")),
)
"""Ways to divide one span of columns. The first is declared: shape at a given size, which is log
N."""
WHOLE_SHAPE = Coding(
    "log L, log H, log d_h | log N of all", ("log_L", "log_H", "log_d_h"), ("log_n_all",)
)
"""The division that `fit_heritage` takes where nothing is said. These columns of shape hold size as
well, so the rules do not read it; the fitted model is asked in it too."""
BLOCKS = CODINGS[0].blocks
SPAN = (*BLOCKS["geometry"], *BLOCKS["scale"])
"""Architecture, shape and size together, whatever is called which."""
AGAINST_ARCHITECTURE = {"heritage": HERITAGE, "architecture": SPAN}
LINEAGE_AGAINST_ARCHITECTURE = {"lineage": LINEAGE, "architecture": SPAN}


class Division(Enum):
    """How architecture enters next to the lab: as one block, or as geometry and scale."""

    UNDIVIDED = "undivided"
    DIVIDED = "divided"

    @property
    def blocks(self) -> Blocks:
        """All blocks by name, the lab among them."""
        return AGAINST_ARCHITECTURE if self is Division.UNDIVIDED else BLOCKS

    @property
    def pair(self) -> tuple[str, str]:
        """The two blocks that are compared where descent takes the place of the lab."""
        return ("descent", "architecture") if self is Division.UNDIVIDED else ("geometry", "scale")


HERITAGE_MINUS_ARCHITECTURE = "heritage − architecture"
LINEAGE_MINUS_ARCHITECTURE = "lineage − architecture"
GEOMETRY_MINUS_SCALE, SHARE_OF_SCALE = "geometry − scale", "share of scale"
"""Quantities that the rules read, by the names that they state."""
TABLE_OF_SHARES, TABLE_OF_CODINGS, TABLE_OF_COUNTS = "shares", "codings", "ways to count weights"
"""Tables of rows in the results."""
PARTS = ("estimate", "lower", "upper", "p")


def compare_shares(
    blocks: Blocks, pair: tuple[str, str], rows: pd.DataFrame, outcomes: Mapping[str, Any]
) -> dict[str, Many]:
    """Corrected shares of the blocks and the difference of two, of many studies."""
    read_numbers(outcomes["outcome"][0], "outcome")
    made = estimate_share_tables(rows, outcomes["outcome"], blocks, (pair,), seed=SEED)
    return {
        what: Many(*(made[part][:, k] for part in PARTS))
        for k, what in enumerate(name_shares(blocks, (pair,)))
    }


def compare_codings(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Shape against size, by the declared coding and by the others."""
    codings = [
        compare_shares(coding.blocks, ("geometry", "scale"), rows, outcomes) for coding in CODINGS
    ]
    return {**codings[0], TABLE_OF_CODINGS: codings}


def compare_counts(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Corrected share of size, for each way to count weights."""
    counts = []
    for column in WEIGHT_COUNTS.values():
        made = compare_shares(BLOCKS | {"scale": (column,)}, ("geometry", "scale"), rows, outcomes)
        counts.append({SHARE_OF_SCALE: made["scale"]})
    return {**counts[0], TABLE_OF_COUNTS: counts}


def describe_shares(
    blocks: Blocks, pair: tuple[str, str], rows: pd.DataFrame, result: Result
) -> Result:
    """The result headed by the difference, with a table of the shares and of what each block
    explains after others."""
    table = estimate_share_table(rows, "outcome", blocks, (pair,), seed=SEED)
    return replace(result, estimate=" − ".join(pair), rows={TABLE_OF_SHARES: table}, table=table)


def describe_codings(_: pd.DataFrame, result: Result) -> Result:
    """The result headed by the difference of the declared coding; codings by name."""
    difference = [f"{GEOMETRY_MINUS_SCALE}{end}" for end in ("", "_lower", "_upper")]
    table = result.rows[TABLE_OF_CODINGS].reindex(
        columns=[*difference, *BLOCKS, "geometry_p", "scale_p"]
    )
    table.insert(0, "coding", [coding.id for coding in CODINGS])
    return replace(
        result, estimate=GEOMETRY_MINUS_SCALE, rows={TABLE_OF_CODINGS: table}, table=table
    )


def describe_counts(_: pd.DataFrame, result: Result) -> Result:
    """Ways to count weights by name."""
    ends = [f"{SHARE_OF_SCALE}{end}" for end in ("", "_lower", "_upper")]
    table = result.rows[TABLE_OF_COUNTS].reindex(columns=ends)
    table.insert(0, "weights", list(WEIGHT_COUNTS))
    return replace(result, rows={TABLE_OF_COUNTS: table}, table=table)


def declare_shares(blocks: Blocks, pair: tuple[str, str]) -> Test:
    """The test of one block against another."""
    describe = partial(describe_shares, blocks, pair)
    return Test(partial(compare_shares, blocks, pair), ("outcome",), INTERVAL, describe=describe)


INTERVAL = f"{LEVEL:.0%} t interval, parametric bootstrap with the design fixed"
BY_ARCHITECTURE = declare_shares(AGAINST_ARCHITECTURE, ("heritage", "architecture"))
BY_LINEAGE = declare_shares(LINEAGE_AGAINST_ARCHITECTURE, ("lineage", "architecture"))
BY_GEOMETRY = Test(compare_codings, ("outcome",), INTERVAL, describe=describe_codings)
BY_SIZE = Test(compare_counts, ("outcome",), INTERVAL, describe=describe_counts)
"""Lab against shape and size together, lab and family against them, shape against size, and
size."""
KINDS = tuple(kind for kind in ERRORS if kind != "one outlying lab")
"""Errors that rules are tried with. Labs have two models or more here, and one that lies off is a
lab's effect."""
COLUMNS = {
    "geometry": BLOCKS["geometry"],
    "density": ("log_rho",),
    "scale": BLOCKS["scale"],
    "architecture": SPAN,
    "curve": ("log_L",),
}


def build_zero_result(name: str, value: float = 0.0) -> Result:
    """The numbers of a rule in a sample without end where a quantity lies at its bar."""
    return Result(quantities={name: Estimate(value)})


LAB_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (AGAINST_ARCHITECTURE,),
    ("heritage", "architecture"),
    HERITAGE,
    SPAN,
    "lab and architecture alike",
    build_zero_result(HERITAGE_MINUS_ARCHITECTURE),
)
LINEAGE_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (LINEAGE_AGAINST_ARCHITECTURE,),
    ("lineage", "architecture"),
    LINEAGE,
    SPAN,
    "lineage and architecture alike",
    build_zero_result(LINEAGE_MINUS_ARCHITECTURE),
)
GEOMETRY_EQUALS_SCALE = Boundary(
    "outcome",
    tuple(coding.blocks for coding in CODINGS),
    ("geometry", "scale"),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    "geometry and scale alike in the coding where geometry is least",
    Result(rows={TABLE_OF_CODINGS: pd.DataFrame({GEOMETRY_MINUS_SCALE: [0.0]})}),
    beside=0.4,
)
SCALE_AT_MARGIN = Boundary(
    "outcome",
    (BLOCKS,),
    ("scale",),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    f"scale has a share of {MARGIN:.0%}",
    Result(rows={TABLE_OF_COUNTS: pd.DataFrame({SHARE_OF_SCALE: [MARGIN]})}),
    MARGIN,
    0.5,
)
OTHERS = {
    "strong heritage": {"heritage": 0.85, "architecture": 0.1},
    "lab alone": {"heritage": 0.9},
    "families only": {"family": 0.6},
    "geometry only": {"geometry": 0.6},
    "curved depth": {"curve": 0.6},
    "scale only": {"scale": 0.6},
    "architecture above heritage": {"heritage": 0.25, "architecture": 0.6},
}
"""One cause alone, and the claimed shares turned round."""
SHARES = partial(build_cause_worlds, "outcome", COLUMNS, column="log_n", ordered=False, kinds=KINDS)
HERITAGE_WORLDS = SHARES({"heritage": 0.6, "architecture": 0.25}, OTHERS)
GEOMETRY_SHARES = SHARES(
    {"heritage": 0.6, "density": 0.2, "scale": 0.05},
    {
        "density alone": {"density": 0.6},
        "lab alone": {"heritage": 0.9},
        "scale only": {"scale": 0.6},
        "strong lab, scale above geometry": {"heritage": 0.7, "geometry": 0.05, "scale": 0.2},
        "scale above geometry": {"heritage": 0.5, "scale": 0.3},
    },
)
SIZE_SHARES = SHARES(
    {"heritage": 0.6, "density": 0.2},
    {
        "size matters": {"heritage": 0.5, "geometry": 0.1, "scale": 0.3},
        "scale only": {"scale": 0.6},
    },
)
ALONG = "log_n"
ONE_WAY, ANY_LAB = (1.0, 1.0), (0.4, 0.8, 0.0)
"""Nuisances at rest and at their bounds: columns go one way; a share of lab effects in the
signal."""

ARCHITECTURE_WORLDS = build_worlds(LAB_EQUALS_ARCHITECTURE, HERITAGE_WORLDS, ALONG, KINDS)
LINEAGE_WORLDS = build_worlds(
    LINEAGE_EQUALS_ARCHITECTURE, HERITAGE_WORLDS, ALONG, KINDS, families=(0.0, 0.0)
)
GEOMETRY_WORLDS = build_worlds(
    GEOMETRY_EQUALS_SCALE, GEOMETRY_SHARES, ALONG, KINDS, tilt=ONE_WAY, beside=ANY_LAB
)
SIZE_WORLDS = build_worlds(SCALE_AT_MARGIN, SIZE_SHARES, ALONG, KINDS, tilt=ONE_WAY, beside=ANY_LAB)
"""Of each comparison: the worlds in which its rule is tried, the boundary among them."""
