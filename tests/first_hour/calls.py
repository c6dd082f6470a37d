"""What someone types in the first hour who knows pandas, ArviZ and statsmodels: calls that run, and
calls refused.

`df` is a table of one's own: model, lab, layers, heads, hidden, params_m (millions), gain. A call
may use what a call before it made.
"""

from __future__ import annotations

HERITAGE = (
    'thermostats.fit_heritage(df, outcome="gain", model="model", lab="lab", '
    'geometry=["layers", "heads"], scale=["params_m"])'
)
OURS = {
    "model": "model_id",
    "lab": "heritage",
    "layers": "n_layers",
    "heads": "n_heads",
    "hidden": "d_model",
    "params_m": "n_params",
}
RUN = {
    "own DataFrame, heritage": (
        f"fit = {HERITAGE}",
        'thermostats.fit_heritage(df, model="model", lab="lab")',
        'alone = thermostats.fit_heritage(df, outcome="gain", model="model", lab="lab", '
        'geometry="layers")',
        'thermostats.fit_heritage(df[df.lab.isin(["A", "B"])], model="model", lab="lab", '
        'geometry=["layers"])',
        'thermostats.fit_heritage(df.groupby("lab").head(2), model="model", lab="lab", '
        'geometry=["layers"])',
        'thermostats.fit_heritage(df.head(6), model="model", lab=None, geometry=["layers"])',
        "ours = df.rename(columns=OURS).assign(n_params=lambda t: t.n_params * 1e6, d_head=64)",
        "thermostats.fit_heritage(ours)",
        "thermostats.fit_heritage(ours.assign(source='me')).sources",
        'thermostats.fit_heritage(df.to_dict("records"), model="model", lab="lab", '
        'geometry=["layers"])',
        'thermostats.fit_heritage(pyarrow.Table.from_pandas(df), model="model", lab="lab", '
        'geometry=["layers"])',
        "prompts = pd.concat([df.assign(prompt=p, gain=df.gain * (1 + 0.01 * i)) for i, p in "
        'enumerate("abc")])',
        'thermostats.fit_heritage(prompts, model="model", lab="lab", geometry=["layers"], '
        'prompt="prompt")',
        'thermostats.fit_heritage(df.assign(gain_sd=0.1, n_prompts=5), model="model", lab="lab", '
        'geometry=["layers"])',
        'thermostats.fit_heritage(df.assign(comparable=df.model != "A-0"), model="model", '
        'lab="lab").warnings',
        'thermostats.fit_heritage(df, model="model", lab="lab", geometry=["layers"], seed=3)',
    ),
    "own DataFrame, other laws": (
        'thermostats.fit_line(df, "gain ~ layers")',
        'line = thermostats.fit_line(df, "gain ~ layers", model="model", group="lab")',
        'thermostats.fit_line(df, "np.log(gain) ~ np.log(layers) + heads", group="lab")',
        'thermostats.fit_line(df, "gain", "layers", model="model", group="lab", scale=0.1)',
        'thermostats.fit_line(df, "gain", ["layers", "heads"], group="lab")',
        'thermostats.fit_line(df, "gain", group="lab")',
        'thermostats.fit_line(df, "gain", group=None)',
        'thermostats.fit_line(df.drop(columns=["lab", "model"]), "gain ~ layers")',
        'thermostats.fit_line(df.assign(kind=["x", "y", "z"] * 5), "gain ~ C(kind)", group="lab")',
        'thermostats.fit_line(df.assign(se=0.01), "gain ~ layers", group="lab", se="se")',
        "star = df.assign(star=df.layers // 2 + 1)",
        'names = {"model": "model", "lab": "lab", "depth": "layers", "heads": "heads"}',
        'moved = thermostats.fit_transition(star, outcome="star", **names)',
        "dense = df.assign(density=df.heads**2 / df.hidden)",
        'crowded = thermostats.studies.delia2026.fit_crowding(dense, "gain", model="model", '
        'lab="lab", density="density")',
        'thermostats.studies.delia2026.fit_threshold(dense, outcome="gain", model="model", '
        'lab="lab", density="density")',
    ),
    "any fit": (
        "fit.summary()",
        "fit.summary(level=0.9)",
        "fit.params",
        "fit.conf_int()",
        "fit.conf_int(level=0.5)",
        'fit.posterior["sd_heritage"].mean()',
        "fit.predict(df)",
        'fit.predict(pd.DataFrame({"lab": ["new"], "layers": [24], "heads": [12], "params_m": '
        "[200]}), level=0.5)",
        'line.predict(pd.DataFrame({"layers": [12, 24], "lab": "A"}))',
        "moved.predict(star.head(2))",
        "crowded.predict(dense.head(2))",
        "fit.loo().elpd",
        'thermostats.compare({"fit": fit, "alone": alone})',
        'fit.save("heritage.nc")',
        'thermostats.load_fit("heritage.nc").predict(df)',
        "pickle.loads(pickle.dumps(fit)).summary()",
        "json.dumps(fit.to_dict())",
        "sorted(name for name in dir(fit) if not name.startswith('_'))",
        "repr(fit)",
        "fit._repr_html_()",
        "fit.probabilities",
        'fit.probability("heritage > geometry")',
        "fit.probability(lambda q: q['sd_heritage'] > 0.01)",
        'fit.table("orders")',
        "fit.plot()",
        'fit.plot("labs")',
        'fit.plot("intervals")',
        'line.plot("replicated")',
        "gate = line.check(refits=False)",
        "gate.passes",
        "gate.table()",
        "fit.warnings",
        "fit.law.equations",
    ),
    "ArviZ": (
        "idata = fit.to_arviz()",
        "az.summary(idata)",
        "az.loo(idata)",
        'az.compare({"with geometry": idata, "depth": alone.to_arviz()})',
        'float(line.to_arviz()["observed_data"]["y"].sel(outcome="A-0"))',
        "az.plot_trace(idata)",
        "az.plot_posterior(idata)",
        "az.plot_forest(idata)",
    ),
    "shipped rows": (
        "thermostats.features()",
        'thermostats.features(lab="EleutherAI")',
        'thermostats.features(heritage="eleutherai")',
        'thermostats.features(source="pythia_family")',
        'thermostats.features().groupby("heritage")["penultimate_gain"].mean()',
        'thermostats.features(comparable=True).drop_duplicates("model_id")',
        'rows = thermostats.model_rows("pooled", "penultimate_gain")',
        'thermostats.fit_line(rows, "log_gain ~ np.log(n_layers)", scale=0.5)',
        'thermostats.fit_heritage(thermostats.gain_rows("last_gain"), estimand="last_gain")',
        'thermostats.fit_heritage(rows, outcome="penultimate_gain")',
        'sm.OLS.from_formula("penultimate_gain ~ n_layers", rows.astype({"n_layers": '
        "float})).fit().params",
        "thermostats.load()",
        'thermostats.load("models")',
        'thermostats.load("prompts")',
        "thermostats.models()",
        "thermostats.claims()",
        'thermostats.prompt_rows("last_gain", "published")',
        "thermostats.studies.delia2026.fit_slopes("
        'thermostats.prompt_rows("last_gain", "measured"))',
    ),
    "joining": (
        'whole = {"columns": {**OURS, "gain": "penultimate_gain"}, "factors": {"n_params": 1e6}}',
        'thermostats.join(df, mapping=whole, constants={"source": "mine"}, data="rows", '
        "dry_run=True)",
        'thermostats.join(df, mapping=whole, constants={"source": "mine"}, data="rows")',
        'thermostats.join(df, mapping=whole, constants={"source": "mine"}, data="rows")',
        'thermostats.features("rows", source="mine")',
        'long = pd.DataFrame({"model": "A-0", "block": [1, 2, 3], "growth": [1.1, 1.2, 0.9], '
        '"prompt": "a"})',
        'named = {"model": "model_id", "block": "layer", "growth": "gain_block", "prompt": '
        '"prompt_id"}',
        'thermostats.join(long, mapping=named, constants={"source": "hooks", "position": "last"}, '
        'data="rows")',
        'thermostats.load("layers", "rows", models=True)',
        'thermostats.forget("hooks", data="rows")',
        'thermostats.gain_rows("penultimate_gain", data="rows", source="mine")',
        'thermostats.check("rows")',
    ),
}
"""Calls that run, by task."""
REFUSED = (
    "thermostats.fit_heritage(df)",
    'thermostats.fit_heritage(df, model="model", lab="lab", geometry=["depth"])',
    'thermostats.fit_heritage(df.assign(lab="one"), model="model", lab="lab", geometry=["layers"])',
    'thermostats.fit_heritage(pd.concat([df, df]), model="model", lab="lab")',
    'thermostats.fit_heritage(thermostats.features(), estimand="last_gain")',
    'thermostats.fit_line(df, "gain", "depth", group="lab")',
    'thermostats.fit_line(df, "gain ~ depth")',
    'thermostats.fit_line(df, "gain ~ layers + (1|lab)")',
    'thermostats.fit_line(df.merge(df[["lab"]], on="lab"), "gain ~ layers")',
    'thermostats.fit_line(df, "gain ~ layers", method="exact")',
    'thermostats.fit_transition(df.assign(star=3), outcome="star")',
)
"""Calls that are refused with a line that works when pasted, whatever the table `df` of the line
is."""
NAMED = (
    ('thermostats.load("layer")', "layers"),
    ('fit.plot("lab")', "labs"),
    ('fit.table("order")', "orders"),
    ('thermostats.features(lab="Eleuther")', "EleutherAI"),
    ('thermostats.model_rows("pooled", "penultimate")', "penultimate_gain"),
    (
        "fit.predict(df[['layers']])",
        'df.assign(**{"lab": VALUES, "heads": VALUES, "params_m": VALUES})',
    ),
    (
        "thermostats.studies.delia2026.fit_crowding(df)",
        '"rho": df["heads"] / (df["hidden"] / df["heads"])',
    ),
    ('thermostats.fit_share(df, "gian > 1")', 'fit_share(df, "gain > 1")'),
    (
        "thermostats.fit_kleiber(df)",
        'fit_kleiber(df, "gain", model="model", lab="lab", depth="layers")',
    ),
)
"""Calls that are refused, and what the refusal names."""
