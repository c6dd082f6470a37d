from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import make_empty_store, shipped_tables
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from thermostats.claims.evidence import Evidence
from thermostats.formatting import estimate_range
from thermostats.modelling.classical.association import estimate_correlation
from thermostats.plots.general import set_column_style
from thermostats.studies.delia2026 import figures
from thermostats.studies.delia2026.figures import FIGURES, SINGLE, Figure, render_figure

TABLES = shipped_tables()
DRAWN: dict[str, pd.DataFrame] = {}


def table_of(figure: Figure) -> pd.DataFrame:
    if figure.title not in DRAWN:
        DRAWN[figure.title] = figure.table(TABLES)
    return DRAWN[figure.title].copy()


def draw(figure: Figure) -> tuple[Canvas, Axes]:
    canvas = Canvas(figsize=(figure.width, figure.height))
    axes = canvas.add_subplot()
    figure.draw(table_of(figure), axes)
    FigureCanvasAgg(canvas).draw()
    return canvas, axes


def test_there_are_the_eight_figures_of_the_study_and_the_combined_one() -> None:
    assert [figure.id for figure in FIGURES] == [f"figure-{n}" for n in range(1, 9)] + ["combined"]
    assert all(re.fullmatch(r"C\d\d", claim) for figure in FIGURES for claim in figure.claims)


@pytest.mark.parametrize("figure", SINGLE, ids=lambda figure: figure.id)
def test_a_figure_is_drawn_the_same_way_twice_and_its_caption_has_no_missing_number(
    figure: Figure,
) -> None:
    table = table_of(figure)
    assert render_figure(figure, table) == render_figure(figure, table)
    caption = figure.write_caption(table)
    assert re.search(r"\d", caption)
    assert not re.search(r"\bnan\b|None\b(?! of)|inf\b|  ", caption)


@pytest.mark.parametrize("figure", FIGURES[-1:], ids=lambda figure: figure.id)
def test_no_text_is_cut_at_the_edge(figure: Figure) -> None:
    with set_column_style():
        canvas, _ = draw(figure)
        drawn = [*(axes for axes in canvas.axes if axes.axison), *canvas.legends]
        boxes = [box for artist in drawn if (box := artist.get_tightbbox()) is not None]
    assert boxes
    assert min(min(box.x0, box.y0) for box in boxes) >= -1
    assert max(box.x1 for box in boxes) <= canvas.bbox.width + 1
    assert max(box.y1 for box in boxes) <= canvas.bbox.height + 1


def test_tables_without_rows_give_empty_ones_and_say_so(tmp_path: Path) -> None:
    make_empty_store(tmp_path)
    for figure in FIGURES:
        table = figure.table(Evidence(tmp_path))
        assert table.empty
        assert figure.write_caption(table) == figures.EMPTY


def test_depth_correlation_is_the_later_note_s() -> None:
    table = table_of(figures.DEPTH)
    assert np.corrcoef(table["n_layers"].astype(float), table["gain"])[0, 1] == pytest.approx(
        -0.878, abs=5e-4
    )
    assert "r = −0.88 [−0.98, −0.46] (95% interval;" in figures.DEPTH.write_caption(table)


def test_standard_deviations_are_those_of_the_prompts() -> None:
    """Against the spread of the per-prompt values themselves."""
    by_prompt = table_of(figures.PROMPTS)
    by_prompt = (
        by_prompt[by_prompt["block"] == figures.PENULTIMATE].groupby("model_id")["gain"].std()
    )
    table = table_of(figures.SIZE).set_index("model_id")
    assert table["sd"].to_numpy() == pytest.approx(by_prompt[table.index].to_numpy(), rel=1e-9)


def test_lab_means_are_the_preprint_s_where_its_models_are_the_same() -> None:
    table = table_of(figures.LABS).drop_duplicates("heritage").set_index("heritage")["lab_mean"]
    printed = {"TII": 1.03, "StabilityAI": 1.08, "Meta": 1.10, "BigScience": 1.11}
    for lab, mean in printed.items():
        assert table[lab] == pytest.approx(mean, abs=0.005)


def test_lab_interval_is_student_s() -> None:
    """Three values 1, 2, 3: mean 2, half width t(0.975; 2) / sqrt 3 = 2.4841."""
    rows = pd.DataFrame({"heritage": ["A"] * 3, "gain": [1.0, 2.0, 3.0], "model_id": list("abc")})
    table = figures.add_lab_means(rows)
    assert table["lab_lower"].iloc[0] == pytest.approx(2 - 2.4841, abs=1e-4)
    assert figures.add_lab_means(rows.iloc[:1])["lab_lower"].isna().all()


def test_formula_misses_by_what_the_preprint_says() -> None:
    table = table_of(figures.TRANSITION)
    error = 100 * (table["formula"] - table["found"]).abs() / table["n_layers"]
    assert error.mean() == pytest.approx(15.7, abs=0.05)
    assert (table["lower"] <= table["found"]).all() and (table["found"] <= table["upper"]).all()


def test_norms_of_the_published_third_are_told_from_those_of_w_v() -> None:
    table = table_of(figures.SPECTRA).set_index("model_id")
    assert set(table.index[table["cut"] == figures.THIRD]) == {
        "EleutherAI/pythia-160m",
        "EleutherAI/pythia-410m",
        "bigscience/bloom-560m",
    }
    assert (np.abs(table.loc[["openai-community/gpt2"], "wv"] - 8.954) < 5e-4).any()
    r = estimate_correlation(np.log(table["wv"]), np.log(table["wo"]), seed=figures.SPECTRA_SEED)
    assert f"r = {estimate_range(r)}" in figures.SPECTRA.write_caption(table.reset_index())


def test_names_with_markup_do_not_reach_the_file() -> None:
    table = table_of(figures.DEPTH)
    table.loc[0, "model_id"] = "<script>alert(1)</script>"
    assert b"<script" not in render_figure(figures.DEPTH, table)
