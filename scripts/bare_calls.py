"""Every public function and every verb once, where the package is installed without extras: `python
bare_calls.py` in an empty folder.

Each works, or says in one line that it needs torch, with the line that installs it. A function or
verb that has no call here is a failure, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TABLE = """
import numpy as np
import pandas as pd
import thermostats
rng = np.random.default_rng(1)
n = 40
df = pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "heritage": [f"lab {i % 5}" for i in range(n)],
    "n_layers": rng.choice([12, 24, 32, 48], n), "n_heads": rng.choice([8, 16, 32], n),
    "d_model": rng.choice([512, 1024, 2048], n), "n_params": rng.uniform(1e8, 7e9, n)})
df["gain"] = np.exp(rng.normal(0, 0.1, 5)[np.arange(n) % 5] + rng.normal(0, 0.05, n))
df["d_head"] = df["d_model"] / df["n_heads"]
df["turn"] = rng.integers(2, 10, n)
every = thermostats.load("models")
rows = thermostats.model_rows("pooled", "penultimate_gain")
"""  # noqa: E501
DECLARED = """
def declared(data):
    import pymc as pm
    mean = pm.Normal("mean", 0, 1)
    pm.Normal("y", mean + 0 * data["n_layers"], 1, observed=data["y_observed"])
"""
CALLS = {
    "__version__": "thermostats.__version__",
    "claims": "thermostats.claims()",
    "check": "thermostats.check()",
    "citations": "thermostats.citations()",
    "compare": 'thermostats.compare({"a": thermostats.fit_line(df, "gain"), "b": '
    'thermostats.fit_line(df, "gain", "n_layers")})',
    "contribute": 'thermostats.contribute("given", data="mine")',
    "export": 'thermostats.export("written", "models")',
    "features": 'thermostats.features(model="pythia-160m")',
    "findings": 'thermostats.findings("C20", out="rep")',
    "fit": DECLARED
    + 'thermostats.fit(df.assign(y=df["gain"]), model=declared, per_row=["n_layers"])',
    "fit_envelope": 'thermostats.fit_envelope(df, "gain", error_from=None)',
    "fit_heritage": 'thermostats.fit_heritage(df, outcome="gain").power(20, 4, studies=20)',
    "fit_kleiber": 'thermostats.fit_kleiber(df, "gain", error_from=None)',
    "fit_line": 'thermostats.fit_line("gain ~ n_layers" and df, "gain ~ n_layers").summary()',
    "fit_lineage": "thermostats.fit_lineage(rows, thermostats.tree(), estimand='penultimate_gain')",
    "fit_matched": 'thermostats.fit_matched(df, "gain", focal="lab 1", family=None)',
    "fit_share": 'thermostats.fit_share(df, "gain > 1")',
    "fit_sources": 'thermostats.fit_sources(thermostats.features(), "penultimate_gain")',
    "fit_transition": 'thermostats.fit_transition(df, outcome="turn")',
    "forget": 'thermostats.forget("smoke", data="mine", dry_run=True)',
    "gain_rows": 'thermostats.gain_rows("penultimate_gain")',
    "join": 'thermostats.join("gains.csv", mapping="map.toml", data="mine")',
    "load": 'thermostats.load("layers", model="pythia-160m")',
    "load_fit": 'thermostats.load_fit(thermostats.fit_line(df, "gain").save("fit.nc"))',
    "models": "thermostats.models()",
    "model_rows": "rows",
    "neighbour_joining": "thermostats.neighbour_joining(pd.DataFrame([[0, 2, 4], [2, 0, 4], [4, 4, "
    '0.0]], index=list("abc"), columns=list("abc")))',
    "options": "thermostats.options.level",
    "paired": 'thermostats.paired("gemma-3-270m", "SmolLM2-135M-Instruct")',
    "next_models": 'thermostats.next_models("C21", budget=2)',
    "power": 'thermostats.power("C05", models=20, labs=5, most=20)',
    "predict_gain": 'thermostats.predict_gain({"n_layers": 24, "n_heads": 16, "d_head": 64, '
    '"n_params": 4e8}, lab="EleutherAI")',
    "profile": 'thermostats.profile("pythia-160m", figure="profile.svg")',
    "prompt_rows": "thermostats.prompt_rows()",
    "report": 'thermostats.report("C20", out="rep")',
    "run_id": 'thermostats.run_id(thermostats.load("runs").iloc[0].to_dict())',
    "specification_curve": "thermostats.specification_curve",
    "trajectories": 'thermostats.trajectories(family="pythia")',
    "tree": "thermostats.tree()",
}
"""Public functions; those about all claims after what they read."""
NEED_TORCH = {
    "do": 'thermostats.do("config.json", "W_V * 2")',
    "measure": 'thermostats.measure("gpt2", data="mine")',
    "prove": 'thermostats.prove("gpt2")',
    "spectral_angles": "thermostats.spectral_angles(every)",
    "steer": 'thermostats.steer("gpt2", to=0.9)',
    "weight_distances": 'thermostats.weight_distances(["a", "b"])',
}
CONFIG = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64}
MAP = """table = "layers"
[columns]
block = "layer"
growth = "gain_block"
[constants]
position = "last"
prompt_id = ""
source = "smoke"
model_id = "EleutherAI/pythia-160m"
"""
VERBS = {
    "version": "version",
    "join": "join gains.csv --map map.toml --data mine",
    "forget": "forget --source smoke --data mine --dry-run",
    "check": "check --data mine",
    "ls": "ls evidence --data mine",
    "report": "report C20 --out rep --data mine",
    "findings": "findings --changed --out rep",
    "doctor": "doctor",
    "set": "set own/tiny heritage=Ours --data mine",
    "needs": "needs C05",
    "export": "export models",
    "cite": "cite",
    "new": "new claim depth-helps",
    "predict": "predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI",
    "next": "next C21 --budget 2GB",
    "power": "power C05 --models 20 --labs 5 --studies 20",
}
VERBS_NEED_TORCH = {
    "measure": "measure gpt2 --data mine",
    "compare": "compare a b",
    "steer": "steer gpt2 --to 0.9",
    "do": "do gpt2 W_V*2",
    "prove": "prove gpt2",
    "predict": "predict config.json --lab Meta",
}
NEEDED = "thermostats[measure]"
OWN_MODEL = """
import thermostats
facts = {"model_id": "own/tiny", "heritage": "Ours", "n_layers": 12, "n_heads": 12, "d_model": 768}
thermostats.join([{**facts, "n_params": 1e9, "source": "tiny"}], data="mine")
"""
ROWS_LACK = ("contribute", "paired", "trajectories")
"""Functions that say in words what the rows at hand lack: whose they are, two models of one depth
on the same prompts, a second checkpoint."""


def run(*command: str) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def find_faults() -> Iterator[str]:
    """What does not work, or says so otherwise than in a line."""
    Path("gains.csv").write_text("block,growth\n1,8.0\n2,1.2\n3,1.1\n")
    Path("map.toml").write_text(MAP)
    Path("config.json").write_text(json.dumps(CONFIG))
    exec(OWN_MODEL, {})  # noqa: S102 - the rows of this file
    for words in VERBS.values():
        code, said = run(sys.executable, "-m", "thermostats", *words.split())
        if code:
            yield f"thermostats {words}: exit code {code}\n{said}"
    for words in VERBS_NEED_TORCH.values():
        code, said = run(sys.executable, "-m", "thermostats", *words.split())
        if code != 2 or NEEDED not in said or len(said.strip().splitlines()) > 1:
            yield f"thermostats {words}: exit code {code}, not one line\n{said}"
    exec(TABLE, globals())  # noqa: S102 - the rows of this file
    import thermostats  # noqa: PLC0415

    lacking = set(thermostats.__all__) ^ (CALLS.keys() | NEED_TORCH.keys())
    yield from (f"{name}: no call of it here, or no such name" for name in sorted(lacking))
    for name, line in {**CALLS, **NEED_TORCH}.items():
        try:
            exec(line, globals())  # noqa: S102 - the calls of this file
        except thermostats.errors.UsageError as error:
            needs_torch = name in NEED_TORCH and NEEDED in str(error)
            if not needs_torch and name not in ROWS_LACK:
                yield f"{line}: {error}"
        except Exception as error:
            yield f"{line}: {type(error).__name__}: {error}"
        else:
            if name in NEED_TORCH:
                yield f"{line}: works without torch"


if __name__ == "__main__":
    faults = list(find_faults())
    print(*faults, sep="\n")
    sys.exit(bool(faults))
