"""How often the checks of a fit warn and fail, by kind of wrongness: an hour of one processor,
resumable.

    python benchmarks/alarms.py             # or --shard 1/2 and --shard 2/2 beside one another
    python benchmarks/alarms.py --table     # the table of what is there
    python benchmarks/alarms.py --limits    # two minutes: the right model of the line without fits

y_i = a + b z_i + u_lab(i) + ε_i with z the standardised log of depth, on models as they are met
(`simulate_facts`), and what is wrong added. Every data set is fitted by `fit_heritage` and by
`fit_line`. What is done is kept in `--folder`; counts go to `results/alarms.csv`, which
docs/explanation/posterior-checks.md shows (`make snapshot`).

The line's test quantities depend on none of its parameters, so that replicated data are normal
noise. `--limits` holds many more right data sets against that, the first of them those of the
table: `results/alarms-limits.csv`.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling import regressors
from thermostats.modelling.checks import FAILED, WARNED, Gate, check_replicates
from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.simulated import simulate_facts
from thermostats.modelling.lines import fit_line
from thermostats.modelling.regressors import Regressors

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results" / "alarms.csv"
LIMITS = RESULTS.with_name("alarms-limits.csv")
UNFITTED, REPLICATES = 2000, 2000
"""Right data sets without fits, and replicated ones that all of them are held against."""
FOLDER = Path.home() / ".cache" / "thermostats-benchmarks" / "alarms"
DESIGNS = {"22 models of 5 labs": (22, 5, 200), "60 models of 20 labs": (60, 20, 20)}
"""Models, labs, and data sets of the right model whose checks have refits, of which a large design
needs 80 each."""
RIGHT, OF_EACH = 1000, 200
LEVEL, SLOPE, LAB, OWN = 0.05, 0.09, 0.13, 0.11
"""Mean log gain, slope on depth over one SD, and standard deviations of labs and of models within
labs."""
PROMPT_SD, PROMPTS = 0.05, 25
FEW = Settings(draws=250)
PER_CENT = 100.0

Change = Callable[[np.random.Generator, NDArray[np.int64], Array, float], Array]
"""From a generator, labs, z and how many times its size a wrongness has: residuals in units of
their SD."""


def normal(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """The right model."""
    return rng.standard_normal(z.size)


def heavy(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """Unit variance, 4 / size degrees of freedom and at least 2.2."""
    df = max(4.0 / size, 2.2)
    return np.asarray(rng.standard_t(df, z.size) * ((df - 2) / df) ** 0.5)


def log_normal(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """Unit variance."""
    e = np.exp(0.8 * size * rng.standard_normal(z.size))
    square = (0.8 * size) ** 2
    return np.asarray((e - np.exp(square / 2)) / np.sqrt(np.exp(2 * square) - np.exp(square)))


def spreads(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """A factor for every lab."""
    return np.asarray(
        np.exp(0.7 * size * rng.standard_normal(lab.max() + 1))[lab] * rng.standard_normal(z.size)
    )


def bimodal(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """Unit variance; heaps of standard deviation 0.3 / size at ±1."""
    return np.asarray(
        (rng.choice([-1.0, 1.0], z.size) + 0.3 / size * rng.standard_normal(z.size)) / 1.09**0.5
    )


def slopes(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """Every lab has a slope of its own."""
    return np.asarray(
        rng.standard_normal(z.size) + 2 * size * rng.standard_normal(lab.max() + 1)[lab] * z
    )


def curved(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """z² of standard deviation 1."""
    square = z**2 - (z**2).mean()
    return np.asarray(rng.standard_normal(z.size) + size * square / square.std())


def outlier(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """One model's residual."""
    e = rng.standard_normal(z.size)
    e[rng.integers(z.size)] = 4 * size * rng.choice([-1.0, 1.0])
    return e


def outlying(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """One lab, in standard deviations of labs."""
    far = (lab == rng.integers(lab.max() + 1)) * rng.choice([-1.0, 1.0])
    return np.asarray(rng.standard_normal(z.size) + 4 * size * LAB / OWN * far)


def growing(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """Unit mean square; e^0.9 times as large over one SD of log depth."""
    scale = np.exp(0.9 * size * z)
    return np.asarray(scale / np.sqrt(np.square(scale).mean()) * rng.standard_normal(z.size))


def hidden(rng: np.random.Generator, lab: NDArray[np.int64], z: Array, size: float) -> Array:
    """Each lab has two families, which no column names."""
    family = 2 * lab + rng.integers(2, size=z.size)
    return np.asarray(
        rng.standard_normal(z.size) + 4 * size * rng.standard_normal(2 * lab.max() + 2)[family]
    )


RIGHT_MODEL, UNIT = "nothing: the right model", "gains in per cent"
KINDS: dict[str, Change] = {
    RIGHT_MODEL: normal,
    "residuals t with 4 degrees of freedom": heavy,
    "residuals log-normal, SD of the log 0.8": log_normal,
    "labs of different spread, SD of its log 0.7": spreads,
    "residuals in two heaps at ±1 SD, each with SD 0.3": bimodal,
    "slope on depth by lab, SD of 2 residual SD": slopes,
    "curved depth, SD of 1 residual SD": curved,
    "one model 4 residual SD off": outlier,
    "one lab 4 SD of labs off": outlying,
    "residual SD that grows with depth, e^0.9 over an SD": growing,
    "families inside labs that no column names, SD of 4 residual SD": hidden,
    UNIT: normal,
}


def world(kind: str, n_models: int, n_labs: int, seed: int, size: float = 1.0) -> pd.DataFrame:
    """One table as `fit_heritage` takes it, wrong in this way, at so many times its stated size."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), n_models, seed])
    facts = simulate_facts(n_models, n_labs, rng)
    lab = pd.factorize(facts["heritage"])[0]
    log_depth = np.log(facts["n_layers"].to_numpy(np.float64))
    z = (log_depth - log_depth.mean()) / log_depth.std()
    y = (
        LEVEL
        + SLOPE * z
        + LAB * rng.standard_normal(n_labs)[lab]
        + OWN * KINDS[kind](rng, lab, z, size)
    )
    y += PROMPT_SD / PROMPTS**0.5 * rng.standard_normal(n_models)
    sd = PROMPT_SD * np.sqrt(rng.chisquare(PROMPTS - 1, n_models) / (PROMPTS - 1))
    gain = np.exp(y) * (PER_CENT if kind == UNIT else 1.0)
    error = sd / PROMPTS**0.5
    return facts.assign(
        gain=gain,
        gain_sd=gain * sd,
        n_prompts=PROMPTS,
        log_gain=np.log(gain),
        log_n_layers=log_depth,
        error=error,
    )


FITS: dict[str, Callable[[pd.DataFrame], Fit]] = {
    "heritage": lambda table: fit_heritage(
        table.drop(columns=["log_gain", "log_n_layers", "error"]), seed=1, settings=FEW
    ),
    "line": lambda table: fit_line(
        table, "log_gain", ["log_n_layers"], scale=0.5, se="error", seed=1
    ),
}


def outcomes(gate: Gate) -> dict[str, str]:
    """Outcome of every check."""
    return {check.name: check.outcome for check in gate.checks}


def tasks() -> list[tuple[str, str, str, int, bool]]:
    """Fit, design, kind, seed, whether with refits: all kinds advance together, refits come
    last."""
    both = [(fit, design) for fit in FITS for design in DESIGNS]
    plain = [
        (seed / (RIGHT if kind == RIGHT_MODEL else OF_EACH), (fit, design, kind, seed, False))
        for fit, design in both
        for kind in KINDS
        for seed in range(RIGHT if kind == RIGHT_MODEL else OF_EACH)
    ]
    refitted = [
        (1 + seed / DESIGNS[design][2], (fit, design, RIGHT_MODEL, seed, True))
        for fit, design in both
        for seed in range(DESIGNS[design][2])
    ]
    return [task for _, task in sorted(plain + refitted, key=lambda pair: pair[0])]


def run(folder: Path, shard: int, shards: int) -> None:
    """Do what is not done, and write the table now and then."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {tuple(row["task"]) for row in rows(folder)}
    todo = [task for task in tasks()[shard - 1 :: shards] if task not in done]
    with (folder / f"{shard}-{shards}.jsonl").open("a", encoding="utf-8") as file:
        for number, task in enumerate(todo, 1):
            fit, design, kind, seed, refits = task
            gate = FITS[fit](world(kind, *DESIGNS[design][:2], seed)).check(refits=refits)
            file.write(json.dumps({"task": task, "outcomes": outcomes(gate)}) + "\n")
            file.flush()
            if number % 200 == 0 or number == len(todo):
                table(folder).to_csv(RESULTS, index=False, lineterminator="\n")
                print(f"{number} of {len(todo)}", flush=True)


def limits() -> pd.DataFrame:
    """In how many right data sets of every design the line's test quantities are beyond their
    limit."""
    counts = []
    for name, (n_models, n_labs, _) in DESIGNS.items():
        noise = np.random.default_rng(7).standard_normal((REPLICATES, n_models))
        failed = 0
        for seed in range(UNFITTED):
            table = world(RIGHT_MODEL, n_models, n_labs, seed)
            x = (table["log_n_layers"] - table["log_n_layers"].mean()).to_numpy()
            design = Regressors(x=x[:, None] / x.std(), groups=pd.factorize(table["heritage"])[0])
            statistics = regressors.build_statistics(design, regressors.CLOSING)
            check = check_replicates(
                "residuals", noise, table["log_gain"].to_numpy(), statistics, outcome=FAILED
            )
            failed += check.outcome == FAILED
        counts.append((name, UNFITTED, failed))
    return pd.DataFrame(counts, columns=["design", "data_sets", "failed"])


def rows(folder: Path) -> Iterator[dict[str, list[str | int | bool] | dict[str, str]]]:
    """What was done; a line that was cut off is not."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.endswith("}}"):
                yield json.loads(line)


def table(folder: Path) -> pd.DataFrame:
    """Per fit, design, kind and check, and of any without refits: data sets, and in how many it
    warned and failed."""
    counts: dict[tuple[str, ...], list[int]] = {}
    for row in rows(folder):
        fit, design, kind, _, refits = row["task"]
        by_check: dict[str, str] = dict(row["outcomes"])
        if refits:
            by_check = {name: by_check[name] for name in ("prior sensitivity", "influence")}
        words = [outcome for outcome in (FAILED, WARNED) if outcome in by_check.values()]
        cells = {f"{name}, refits": word for name, word in by_check.items()} if refits else by_check
        cells = cells if refits else {"any": words[0] if words else "", **cells}
        for check, outcome in cells.items():
            count = counts.setdefault((str(fit), str(design), str(kind), check), [0, 0, 0])
            for i, hit in enumerate((True, outcome == WARNED, outcome == FAILED)):
                count[i] += hit
    made = pd.DataFrame(
        [(*key, *count) for key, count in counts.items()],
        columns=["fit", "design", "wrong", "check", "data_sets", "warned", "failed"],
    )
    order = {kind: place for place, kind in enumerate(KINDS)}
    return made.sort_values(
        ["fit", "design", "wrong", "check"],
        key=lambda column: column.map(order) if column.name == "wrong" else column,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--limits", action="store_true")
    arguments = parser.parse_args()
    if arguments.limits:
        limits().to_csv(LIMITS, index=False, lineterminator="\n")
        return
    if not arguments.table:
        run(arguments.folder, *map(int, arguments.shard.split("/")))
    table(arguments.folder).to_csv(RESULTS, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
