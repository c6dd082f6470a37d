"""What rows of different tables must agree on: sound rows pass, each wrong one is named, joins
refuse it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import SHA, model, run, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import identities, store
from thermostats.tables.join import join
from thermostats.tables.runs import hash_prompts

LENGTH = 5
TEXTS = table("prompts", {"prompt_set": "two", "prompt_id": "a", "text_sha256": SHA})
LOOK = {"prompt_set": "two", "prompt_sha": hash_prompts(TEXTS), "source": "thermostats"}
HEADS = {(1, "1"): 3.0, (1, "2"): 4.0, (2, "1"): 6.0, (2, "2"): 8.0}
"""Frobenius norms of W_V by layer and head; those of a layer add to 5 and 10."""


def sound() -> dict[str, pd.DataFrame]:
    """A model of two layers and two heads, measured in three runs, with rows that agree by
    construction."""
    residual, weights = (
        run(**LOOK),
        run(**LOOK | {"prompt_set": "", "prompt_sha": "", "attention": ""}),
    )
    eager = run(**LOOK | {"attention": "sdpa"})
    rest = dict.fromkeys(
        ("gain_attention", "gain_mlp", "write_attention", "write_mlp", "cosine", "anisotropy"), 0.5
    )
    rest |= {"run_id": residual["run_id"], "prompt_id": "a", "position": "last", "n_tokens": LENGTH}
    layers = [
        {**rest, "layer": number, "norm_in": norm, "gain_block": gain}
        for number, norm, gain in ((1, 2.0, 8.0), (2, 16.0, 1.25))
    ]
    look = (
        "graph_lambda2",
        "laplacian_min",
        "laplacian_max",
        "entropy",
        "distance",
        "operator_norm",
    )
    heads = {"run_id": eager["run_id"], "prompt_id": "a", "variant": "exact", "self_attention": 0.2}
    heads |= dict.fromkeys((*look, "contraction_ratio"), 0.5)
    spectra, attention = [], []
    for number, total in ((1, 5.0), (2, 10.0)):
        of_heads = {head: HEADS[number, head] for head in ("1", "2")}
        for head, norm in {"": total, **of_heads}.items():
            of = {"run_id": weights["run_id"], "layer": number, "matrix": "W_V", "head": head}
            spectra.append(
                {**of, "spectral_norm": norm / 2, "frobenius_norm": norm, "stable_rank": 4.0}
            )
        traces = {head: LENGTH * 0.8 * norm**2 for head, norm in of_heads.items()}
        for head, trace in {**traces, "": sum(traces.values())}.items():
            attention.append({**heads, "layer": number, "head": head, "trace": trace})
        attention.append(
            {
                "run_id": eager["run_id"],
                "layer": number,
                "variant": "proxy",
                "trace": (total / 2) ** 2,
            }
        )
    stated = [
        {
            "run_id": residual["run_id"],
            "prompt_id": "a",
            "estimand": "total_amplification",
            "value": 1.25,
        },
        {
            "run_id": weights["run_id"],
            "prompt_id": "",
            "estimand": "W_V_spectral_norm_mean",
            "value": 3.75,
        },
    ]
    return {
        "models": table("models", model(n_layers=2)),
        "prompts": TEXTS,
        "runs": table("runs", residual, weights, eager),
        "layers": table("layers", *layers),
        "summaries": table("summaries", *stated),
        "outputs": table("outputs"),
        "weights": table("weights", *spectra),
        "attention": table("attention", *attention),
        "transitions": table("transitions"),
    }


WRONG = {
    "a prompt": ("layers", {"layer": 1}, "prompt_id", "b", "not in the set of its run"),
    "a text": (
        "prompts",
        {"prompt_id": "a"},
        "text_sha256",
        "1" * 64,
        "other texts than when it was measured",
    ),
    "a layer": ("layers", {"layer": 2}, "layer", 3, "beyond the model's last"),
    "a layer of weights": (
        "weights",
        {"layer": 2},
        "layer",
        7,
        "beyond the model's last, in 3 rows",
    ),
    "a head": ("weights", {"layer": 2, "head": "2"}, "head", "3", "the model has no such head"),
    "a head's name": (
        "weights",
        {"layer": 2, "head": "2"},
        "head",
        "first",
        "the model has no such head",
    ),
    "a gain": ("layers", {"layer": 1}, "gain_block", 8.1, "do not multiply to the norms"),
    "a norm": ("layers", {"layer": 2}, "norm_in", 15.9, "do not multiply to the norms"),
    "a lacking gain": ("layers", {"layer": 2}, "gain_block", np.nan, "missing without a reason"),
    "an amplification": (
        "summaries",
        {"estimand": "total_amplification"},
        "value",
        1.26,
        "product of its gains",
    ),
    "a mean": (
        "summaries",
        {"estimand": "W_V_spectral_norm_mean"},
        "value",
        3.8,
        "mean over the layers",
    ),
    "a lacking value": (
        "summaries",
        {"estimand": "W_V_spectral_norm_mean"},
        "value",
        np.nan,
        "without a reason",
    ),
    "a stable rank": (
        "weights",
        {"layer": 1, "head": "1"},
        "stable_rank",
        4.1,
        "squared Frobenius",
    ),
    "a whole matrix": (
        "weights",
        {"layer": 2, "head": ""},
        "frobenius_norm",
        11.0,
        "is not the sum over its heads",
    ),
    "a spectral norm": (
        "weights",
        {"layer": 2, "head": ""},
        "spectral_norm",
        3.9,
        "a head has a larger spectral norm",
    ),
    "a trace": ("attention", {"layer": 1, "head": "2"}, "trace", 63.0, "sum over its heads"),
    "a self-attention": ("attention", {"layer": 1, "head": "2"}, "self_attention", 0.21, "tr A"),
    "a sum of traces": (
        "attention",
        {"layer": 2, "head": "", "variant": "exact"},
        "trace",
        401.0,
        "sum over its",
    ),
    "a proxy": (
        "attention",
        {"layer": 2, "variant": "proxy"},
        "trace",
        25.5,
        "spectral norm of W_V",
    ),
    "a lacking measure": (
        "attention",
        {"layer": 1, "head": "1"},
        "entropy",
        np.nan,
        "without a reason",
    ),
    "a lacking variant": (
        "attention",
        {"layer": 1, "variant": "proxy"},
        "trace",
        np.nan,
        "without a reason",
    ),
}


def changed(tables: dict[str, pd.DataFrame], name: str) -> dict[str, pd.DataFrame]:
    where, row, label, value, _ = WRONG[name]
    frame = tables[where].copy()
    chosen = (frame[list(row)] == pd.Series(row)).all(axis=1)
    frame.loc[chosen, label] = value
    if label in ("frobenius_norm", "spectral_norm"):
        frame["stable_rank"] = (frame["frobenius_norm"] / frame["spectral_norm"]) ** 2
    assert not frame.equals(tables[where])
    return {**tables, where: frame}


def test_sound_rows_agree_and_can_be_joined(tmp_path: Path) -> None:
    identities.check_identities(sound())
    join([frame for frame in sound().values() if len(frame)], data=tmp_path / "mine")
    assert store.check(tmp_path / "mine")["attention"] >= 8


@pytest.mark.parametrize("name", WRONG)
def test_rows_that_disagree_are_named(name: str) -> None:
    with pytest.raises(DataError, match=WRONG[name][4]) as caught:
        identities.check_identities(changed(sound(), name))
    assert "lab/small" in str(caught.value)


def test_key_value_heads_that_are_shared_count_once() -> None:
    tables = sound()
    norms = tables["weights"]["layer"].map({1: 5.0, 2: 10.0}).astype(float)
    shared = tables["weights"].assign(frobenius_norm=norms, spectral_norm=norms / 2)
    without = {
        **tables,
        "weights": shared,
        "attention": table("attention"),
        "summaries": table("summaries"),
    }
    identities.check_identities({**without, "models": tables["models"].assign(n_kv_heads=1)})
    with pytest.raises(DataError, match="is not the sum over its heads"):
        identities.check_identities(without)


@pytest.mark.parametrize("look", [{"dtype": "bfloat16"}, {"measure_version": "published"}])
@pytest.mark.parametrize("name", ["a proxy", "a self-attention", "an amplification"])
def test_precision_sets_what_is_allowed_and_published_rows_are_passed_over(
    name: str, look: dict[str, str]
) -> None:
    tables = changed(sound(), name)
    identities.check_identities({**tables, "runs": tables["runs"].assign(**look)})


def test_a_reason_is_enough_and_sinks_leave_less() -> None:
    tables = changed(sound(), "a lacking gain")
    layers = tables["layers"].assign(missing=["", "norm not finite"])
    summaries = tables["summaries"].iloc[1:]
    identities.check_identities({**tables, "layers": layers, "summaries": summaries})
    tables = sound()
    sinks, exact = (
        tables["models"].assign(architecture="gpt_oss"),
        tables["attention"]["variant"] == "exact",
    )
    less = tables["attention"]["trace"].where(~exact, tables["attention"]["trace"] * 0.9)
    tables["attention"] = tables["attention"].assign(trace=less)
    identities.check_identities({**tables, "models": sinks})
    with pytest.raises(DataError, match="tr A"):
        identities.check_identities(tables)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a gain"])
def test_a_join_refuses_rows_that_disagree_with_those_that_are_there(
    tmp_path: Path, name: str
) -> None:
    data = tmp_path / "mine"
    tables = sound()
    wrong = changed(tables, name)[WRONG[name][0]]
    join(
        [frame for label, frame in tables.items() if len(frame) and label != WRONG[name][0]],
        data=data,
    )
    before = snapshot(data)
    with pytest.raises(DataError, match=WRONG[name][4]):
        join(wrong, data=data)
    assert snapshot(data) == before
    join(tables[WRONG[name][0]], data=data)
    with pytest.raises(DataError, match=WRONG[name][4]):
        join(wrong, data=data, replace=True)


def test_what_is_wrong_in_several_models_is_said_of_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, messages = sound(), []
    runs = [{**row, "model_id": "lab/two"} for row in one["runs"].to_dict("records")]
    ids = {
        row["run_id"]: run(
            **{**LOOK, **{k: row[k] for k in ("model_id", "prompt_set", "prompt_sha", "attention")}}
        )["run_id"]
        for row in runs
    }
    both = {
        name: pd.concat([rows, rows.assign(run_id=rows["run_id"].map(ids))], ignore_index=True)
        if "run_id" in rows
        else rows
        for name, rows in one.items()
    }
    both["models"] = pd.concat(
        [one["models"], one["models"].assign(model_id="lab/two")], ignore_index=True
    )
    both["runs"] = pd.concat(
        [one["runs"], pd.DataFrame(runs).assign(run_id=[ids[row["run_id"]] for row in runs])],
        ignore_index=True,
    )
    for part in (1, 10**6):
        monkeypatch.setattr(identities, "PART", part)
        identities.check_identities(both)
        wrong = {
            **both,
            "layers": both["layers"].assign(gain_block=both["layers"]["gain_block"] * 1.5),
        }
        with pytest.raises(DataError, match=r"in (2|4) rows") as caught:
            identities.check_identities(wrong)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
