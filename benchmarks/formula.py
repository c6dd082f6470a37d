"""The formula version of the heritage model by Bambi: reads a CSV of gains, samples with nutpie,
prints JSON.

Run by `modelling.py` with the interpreter of an environment that has Bambi; imports nothing of this
package.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version

import arviz as az
import bambi as bmb
import numpy as np
import pandas as pd

FACTS = ("n_layers", "n_heads", "d_head", "n_params")


def main() -> None:
    """Four chains of 1000 + 1000."""
    table = pd.read_csv(sys.argv[1])
    start = time.perf_counter()
    logs = pd.DataFrame({name: np.log(table[name]) for name in FACTS})
    table[list(FACTS)] = (logs - logs.mean()) / logs.std()
    table["log_gain"] = np.log(table["gain"])
    groups = "(1 | heritage) + (1 | model_id) + (1 | category) + (1 | model_id:category)"
    formula = bmb.Formula(
        f"log_gain ~ {' + '.join(FACTS)} + {groups}", "sigma ~ 1 + (1 | model_id)"
    )
    model = bmb.Model(formula, table, family="t")
    model.build()
    trace = model.fit(
        draws=1000,
        tune=1000,
        chains=4,
        cores=2,
        random_seed=1,
        inference_method="nutpie",
        target_accept=0.9,
        progressbar=False,
    )
    seconds = trace.posterior.attrs["sampling_time"]
    wall = time.perf_counter() - start
    posterior = {name: values.values for name, values in trace.posterior.data_vars.items()}
    ess = [
        float(az.ess(trace, var_names=[n], method=m)[n].min())
        for n in posterior
        for m in ("bulk", "tail")
    ]
    rhat = [float(az.rhat(trace, var_names=[n])[n].max()) for n in posterior]
    row = {
        "version": f"bambi {version('bambi')}, pymc {version('pymc')}",
        "start_s": wall - seconds,
        "sample_s": seconds,
        "ess_min": min(ess),
        "rhat_max": max(rhat),
        "divergences": int(trace.sample_stats["diverging"].sum()),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
