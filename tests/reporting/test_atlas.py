from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import command, layer, run, table
from workplaces import EVIL, make_workplace

from thermostats.claims.evidence import Evidence
from thermostats.reporting.pages import atlas, atlas_rows
from thermostats.tables import store

SHIPPED = Evidence()
ROWS = atlas_rows.rows(SHIPPED)


def line(drawn: pd.DataFrame, quantity: str, model_id: str) -> pd.Series:
    rows = drawn[(drawn["quantity"] == quantity) & (drawn["model_id"] == model_id)]
    return rows.set_index("layer")["value"]


def put(data: Path, name: str, *rows: dict[str, object]) -> None:
    store.save(table(name, *rows), name, data / "measured" / name / "more.csv")


def test_gains_are_averaged_geometrically_and_norms_are_their_product(small_store: Path) -> None:
    """Gains 2 and 8 of two prompts: geometric mean 4; n_3/n_1 = 4 · 0.5."""
    measured = run(source="thermostats")
    gains = [(1, 9.0, 9.0), (2, 2.0, 8.0), (3, 0.5, 0.5)]
    put(small_store, "runs", measured)
    put(small_store, "layers", *[layer(measured, n, g, p) for n, *two in gains for g, p in zip(two, "ab", strict=True)])
    drawn = atlas_rows.rows(Evidence(small_store))
    ours = drawn[drawn["origin"] == atlas_rows.MEASURED_ORIGIN]
    assert line(ours, "gain", "lab/small").to_dict() == pytest.approx({1: 9.0, 2: 4.0, 3: 0.5})
    assert line(ours, "norm", "lab/small").to_dict() == pytest.approx({1: 1.0, 2: 4.0, 3: 2.0})
    theirs = drawn[drawn["origin"] == atlas_rows.PUBLISHED_ORIGIN]
    assert line(theirs, "gain", "lab/small")[2] == pytest.approx(1.5)


def test_norms_are_taken_where_they_are_known(small_store: Path) -> None:
    measured = run(source="thermostats")
    put(small_store, "runs", measured)
    rows = [
        layer(measured, n, gain) | {"norm_in": norm}
        for n, norm, gain in ((1, 2.0, 5.0), (2, 10.0, 2.0), (3, 20.0, 3.0))
    ]
    put(small_store, "layers", *rows)
    drawn = atlas_rows.rows(Evidence(small_store))
    ours = drawn[(drawn["origin"] == atlas_rows.MEASURED_ORIGIN) & (drawn["quantity"] == "norm")].set_index("layer")
    assert ours["value"].to_dict() == pytest.approx({1: 1.0, 2: 2.0, 3: 6.0})
    assert ours["norm"].dropna().to_dict() == pytest.approx({1: 10.0, 2: 20.0})


def test_measured_weights_and_exact_traces_are_shown(small_store: Path) -> None:
    measured = run(source="thermostats")
    run_id = measured["run_id"]
    put(small_store, "runs", measured)
    norms = [(m, n, h, v) for m, n, h, v in (("W_V", 1, "", 3.0), ("W_V", 1, "1", 9.0), ("W_O", 2, "", 4.0))]
    put(
        small_store,
        "weights",
        *[{"run_id": run_id, "matrix": m, "layer": n, "head": h, "spectral_norm": v} for m, n, h, v in norms],
    )
    put(
        small_store,
        "attention",
        *[
            {"run_id": run_id, "layer": 2, "prompt_id": p, "variant": v, "trace": t}
            for p, v, t in (("a", "exact", 1.0), ("b", "exact", 3.0), ("a", "multi_head", 50.0))
        ],
    )
    drawn = atlas_rows.rows(Evidence(small_store))
    assert line(drawn, "W_V", "lab/small").to_dict() == {1: 3.0}
    assert line(drawn, "W_O", "lab/small").to_dict() == {2: 4.0}
    assert line(drawn, "trace", "lab/small").to_dict() == {2: 2.0}
    assert atlas_rows.missing(drawn, Evidence(small_store)) == {name: [] for name in atlas_rows.QUANTITIES}


def test_every_line_is_of_one_run_and_lies_within_its_model() -> None:
    assert not ROWS.duplicated([*atlas_rows.MODEL, "quantity", "layer"]).any()
    assert ROWS["depth"].between(0, 1, inclusive="right").all()
    assert (ROWS["value"] > 0).all() and np.isfinite(ROWS["value"]).all()
    assert (ROWS.groupby([*atlas_rows.MODEL, "quantity"])["source"].nunique() == 1).all()


def test_published_gains_are_in_the_atlas_as_they_stand_in_the_table() -> None:
    """Pythia-70m: the mean over prompts that its file gives."""
    rows = SHIPPED.table("layers", model_id="EleutherAI/pythia-70m", prompt_id="", position="last")
    published = rows.dropna(subset="gain_block").set_index("layer")["gain_block"]
    assert line(ROWS, "gain", "EleutherAI/pythia-70m").to_dict() == pytest.approx(published.to_dict())


def test_models_without_data_are_named_and_a_third_is_no_w_v() -> None:
    lacking = {row["quantity"]: row["models"] for row in atlas.lacking(ROWS, SHIPPED)}
    named = lacking[atlas_rows.QUANTITIES["trace"]]
    without = set(SHIPPED.table("models")["model_id"]) - set(ROWS.loc[ROWS["quantity"] == "trace", "model_id"])
    assert named.startswith(f"{len(without)} of ") and "bloom-3b" in named
    assert "pythia-1.4b" in lacking[atlas_rows.QUANTITIES["W_V"]]


@pytest.mark.slow
@pytest.mark.long
def test_the_page_is_the_same_in_every_process_and_small() -> None:
    code = (
        "import hashlib; from thermostats.reporting.pages import atlas; "
        "from thermostats.claims.evidence import Evidence; "
        "print(hashlib.sha256(atlas.page(Evidence()).encode()).hexdigest())"
    )
    other = command(code=code, PYTHONHASHSEED=7)
    page = atlas.page(SHIPPED).encode()
    assert other.stdout.strip() == hashlib.sha256(page).hexdigest()
    assert len(page) < 4_000_000


def test_names_with_markup_stay_text(tmp_path: Path) -> None:
    page = atlas.page(Evidence(make_workplace(tmp_path)["data"]))
    own = page.replace(_bundle(page), "")
    assert "<script>alert" not in own
    assert not re.search(r"""(src|href)=["'](https?:)?//""", own) and "default-src 'none'" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in own
    data = re.search(r'id="spec">(.*?)</script>', own, re.S)
    assert data and EVIL in json.dumps(json.loads(data[1]))
    assert json.loads(atlas.script_json({"a": "</script><!--&"})) == {"a": "</script><!--&"}
    assert "<" not in atlas.script_json("</script>")


def test_an_empty_data_folder_gives_a_page_that_says_so(tmp_path: Path) -> None:
    page = atlas.page(Evidence(tmp_path))
    assert "hold no values by layer" in page and "vegaEmbed" not in page


def _bundle(page: str) -> str:
    found = re.search(r"<script>(.*?)</script>", page, re.S)
    assert found
    return found[1]
