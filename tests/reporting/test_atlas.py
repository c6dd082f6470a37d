from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import command, layer, make_empty_store, run, shipped_tables, table
from workplaces import EVIL, make_workplace

from thermostats.claims.evidence import Evidence
from thermostats.reporting.pages import atlas
from thermostats.tables import store


def line(drawn: pd.DataFrame, quantity: str, model_id: str) -> pd.Series:
    rows = drawn[(drawn["quantity"] == quantity) & (drawn["model_id"] == model_id)]
    return rows.set_index("layer")["value"]


class Lines(HTMLParser):
    """Lines of a page: what stands in their attributes, and their paths."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name.removeprefix("data-"): value or "" for name, value in attrs}
        if tag == "g" and named.get("class", "").startswith("line "):
            self.lines.append(named)
        elif tag == "path" and named.get("class") in {"way", "leaving"}:
            self.lines[-1][named["class"]] = named["d"]


def lines_of(page: str) -> list[dict[str, str]]:
    reader = Lines()
    reader.feed(page)
    return reader.lines


def put(data: Path, name: str, *rows: dict[str, object]) -> None:
    store.save(table(name, *rows), name, data / "measured" / name / "more.csv")


def test_gains_are_averaged_geometrically_and_norms_are_their_product(small_store: Path) -> None:
    """Gains 2 and 8 of two prompts: geometric mean 4; n_3/n_1 = 4 · 0.5."""
    measured = run(source="thermostats")
    gains = [(1, 9.0, 9.0), (2, 2.0, 8.0), (3, 0.5, 0.5)]
    put(small_store, "runs", measured)
    put(
        small_store,
        "layers",
        *[layer(measured, n, g, p) for n, *two in gains for g, p in zip(two, "ab", strict=True)],
    )
    drawn = atlas.collect_rows(Evidence(small_store))
    ours = drawn[drawn["origin"] == atlas.MEASURED_ORIGIN]
    assert line(ours, "gain", "lab/small").to_dict() == pytest.approx({1: 9.0, 2: 4.0, 3: 0.5})
    assert line(ours, "norm", "lab/small").to_dict() == pytest.approx({1: 1.0, 2: 4.0, 3: 2.0})
    theirs = drawn[drawn["origin"] == atlas.PUBLISHED_ORIGIN]
    assert line(theirs, "gain", "lab/small")[2] == pytest.approx(1.5)


def test_norms_are_taken_where_they_are_known(small_store: Path) -> None:
    measured = run(source="thermostats")
    put(small_store, "runs", measured)
    rows = [
        layer(measured, n, gain) | {"norm_in": norm}
        for n, norm, gain in ((1, 2.0, 5.0), (2, 10.0, 2.0), (3, 20.0, 3.0))
    ]
    put(small_store, "layers", *rows)
    drawn = atlas.collect_rows(Evidence(small_store))
    ours = drawn[
        (drawn["origin"] == atlas.MEASURED_ORIGIN) & (drawn["quantity"] == "norm")
    ].set_index("layer")
    assert ours["value"].to_dict() == pytest.approx({1: 1.0, 2: 2.0, 3: 6.0})
    assert ours["norm"].dropna().to_dict() == pytest.approx({1: 10.0, 2: 20.0})


def test_measured_weights_and_exact_traces_are_shown(small_store: Path) -> None:
    measured = run(source="thermostats")
    run_id = measured["run_id"]
    put(small_store, "runs", measured)
    norms = [
        (m, n, h, v)
        for m, n, h, v in (("W_V", 1, "", 3.0), ("W_V", 1, "1", 9.0), ("W_O", 2, "", 4.0))
    ]
    put(
        small_store,
        "weights",
        *[
            {"run_id": run_id, "matrix": m, "layer": n, "head": h, "spectral_norm": v}
            for m, n, h, v in norms
        ],
    )
    put(
        small_store,
        "attention",
        *[
            {"run_id": run_id, "layer": 2, "prompt_id": p, "variant": v, "trace": t}
            for p, v, t in (("a", "exact", 1.0), ("b", "exact", 3.0), ("a", "multi_head", 50.0))
        ],
    )
    drawn = atlas.collect_rows(Evidence(small_store))
    assert line(drawn, "W_V", "lab/small").to_dict() == {1: 3.0}
    assert line(drawn, "W_O", "lab/small").to_dict() == {2: 4.0}
    assert line(drawn, "trace", "lab/small").to_dict() == {2: 2.0}
    assert atlas.find_missing(drawn, Evidence(small_store)) == {
        name: [] for name in atlas.QUANTITIES
    }


def test_every_line_is_of_one_run_and_lies_within_its_model(rows_of_atlas: pd.DataFrame) -> None:
    assert not rows_of_atlas.duplicated([*atlas.MODEL, "quantity", "layer"]).any()
    assert rows_of_atlas["depth"].between(0, 1, inclusive="right").all()
    assert (rows_of_atlas["value"] > 0).all() and np.isfinite(rows_of_atlas["value"]).all()
    assert (rows_of_atlas.groupby([*atlas.MODEL, "quantity"])["source"].nunique() == 1).all()


def test_published_gains_are_in_the_atlas_as_they_stand_in_the_table(
    rows_of_atlas: pd.DataFrame,
) -> None:
    """Pythia-70m: the mean over prompts that its file gives."""
    rows = shipped_tables().table(
        "layers", model_id="EleutherAI/pythia-70m", prompt_id="", position="last"
    )
    published = rows.dropna(subset="gain_block").set_index("layer")["gain_block"]
    assert line(rows_of_atlas, "gain", "EleutherAI/pythia-70m").to_dict() == pytest.approx(
        published.to_dict()
    )


def test_models_without_data_are_named_and_a_third_is_no_w_v(rows_of_atlas: pd.DataFrame) -> None:
    lacking = {
        row["quantity"]: row["models"]
        for row in atlas.list_lacking(rows_of_atlas, shipped_tables())
    }
    named = lacking[atlas.QUANTITIES["trace"]]
    without = set(shipped_tables().table("models")["model_id"]) - set(
        rows_of_atlas.loc[rows_of_atlas["quantity"] == "trace", "model_id"]
    )
    assert named.startswith(f"{len(without)} of ") and "bloom-3b" in named
    assert "pythia-1.4b" in lacking[atlas.QUANTITIES["W_V"]]


def test_the_page_is_small(page_of_atlas: str) -> None:
    assert len(page_of_atlas.encode()) < 1_500_000


def test_without_scripts_the_page_shows_four_models_of_the_study_inside_one_panel(
    rows_of_atlas: pd.DataFrame, page_of_atlas: str
) -> None:
    shown = [line for line in lines_of(page_of_atlas) if "hidden" not in line and "first" in line]
    labs = {line["model"].partition(" @ ")[0]: line["lab"] for line in shown}
    assert set(labs) == set(atlas.choose_contrasting(rows_of_atlas, atlas.FIRST))
    assert len(labs) == len(set(labs.values())) == atlas.FIRST == 4
    of_study = rows_of_atlas[rows_of_atlas["origin"] == atlas.PUBLISHED_ORIGIN]
    assert set(labs) <= set(of_study["model_id"])
    gains = rows_of_atlas[rows_of_atlas["quantity"].eq(atlas.GAIN) & rows_of_atlas["layer"].ge(2)]
    low, high = atlas._find_common_gains(gains)
    theirs = gains[gains["model_id"].isin(set(labs)) & gains["origin"].ne(atlas.TRAINED_ORIGIN)]
    assert theirs["value"].between(low, high).all()
    assert all(
        "hidden" in line
        for line in lines_of(page_of_atlas)
        if line["source"] == atlas.TRAINED_ORIGIN
    )


def test_every_value_of_the_rows_is_in_a_line_and_stands_at_its_place(
    rows_of_atlas: pd.DataFrame, page_of_atlas: str
) -> None:
    """Gains stand in two panels, of the common and of the whole range, and from block 2 on."""
    held = [
        (line["model"].partition(" @ ")[0], line["source"], line["lab"], int(layer), float(value))
        for line in lines_of(page_of_atlas)
        for layer, value in zip(line["layers"].split(), line["values"].split(), strict=True)
    ]
    gains = rows_of_atlas["quantity"] == atlas.GAIN
    drawn = pd.concat(
        [
            rows_of_atlas[~gains],
            *2 * [rows_of_atlas[gains & (rows_of_atlas["layer"] >= atlas.SHOWN_GAIN_FROM)]],
        ]
    )
    columns = ["model_id", "origin", "heritage", "layer"]
    expected = sorted(zip(*(drawn[name] for name in columns), drawn["value"], strict=True))
    assert [row[:4] for row in sorted(held)] == [row[:4] for row in expected]
    assert [row[4] for row in sorted(held)] == pytest.approx([row[4] for row in expected], rel=1e-4)


def test_a_plot_is_logarithmic_and_says_where_a_line_leaves_it() -> None:
    """The value in the middle of the axis is the geometric mean of its ends."""
    rows = pd.DataFrame(
        {"depth": [0.5, 1.0, 1.0], "value": [1.0, 2.0, 9.0], "layer": [1, 2, 3], "n_layers": 3}
    )
    rows = rows.assign(
        model="m", heritage="Meta", family="", origin="published", norm=np.nan, first=True
    )
    line = atlas._build_line(rows.assign(definition="d", source="s"), 0.5, 2.0)
    places = [tuple(map(float, pair.split(","))) for pair in line.way.removeprefix("M").split("L")]
    assert places[0] == pytest.approx(
        (atlas.WIDTH * 0.5 / atlas.DEEPEST, atlas.HEIGHT / 2), abs=0.05
    )
    assert places[1][1] == 0 and places[2][1] < 0
    assert line.leaving.startswith(f"M{places[2][0]:.1f},0l") and line.leaving.count("M") == 1


@pytest.mark.parametrize(("low", "high"), [(0.6, 2.2), (0.2, 60.0), (0.4, 3e8), (1.0, 1.01)])
def test_an_axis_has_a_few_round_numbers(low: float, high: float) -> None:
    places = atlas.place_ticks(low, high)
    assert 2 <= len(places) <= 12 and all(low <= at <= high for at, _ in places)
    assert len({label for _, label in places}) == len(places)


@pytest.mark.slow
@pytest.mark.long
def test_the_page_is_the_same_in_every_process(page_of_atlas: str) -> None:
    code = (
        "import hashlib; from thermostats.reporting.pages import atlas; "
        "from thermostats.claims.evidence import Evidence; "
        "print(hashlib.sha256(atlas.render_page(Evidence()).encode()).hexdigest())"
    )
    other = command(code=code, PYTHONHASHSEED=7)
    assert other.stdout.strip() == hashlib.sha256(page_of_atlas.encode()).hexdigest()


def test_names_with_markup_stay_text(tmp_path: Path) -> None:
    page = atlas.render_page(Evidence(make_workplace(tmp_path)["data"]))
    assert page.count("<script>") == 1 and "<script>alert" not in page
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page) and "default-src 'none'" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert any(EVIL in line["model"] for line in lines_of(page))


def test_tables_without_rows_give_a_page_that_says_so(tmp_path: Path) -> None:
    page = atlas.render_page(Evidence(make_empty_store(tmp_path)))
    assert "hold no values by layer" in page and "<script>" not in page
