"""Every fit of the same rows in other clothes – categories, other dtypes, another index – lays out
the same model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES

from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.sampling import Sampled

Table = pd.DataFrame


def texts(table: Table) -> list[str]:
    return [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]


INSIDE = (
    *("error", "freedom", "log_gain", "outcome", "value", "lab", "holds", "holds_", "group"),
    *("group_", "x", "_x", "_y", "sd", "mean", "cell", "log_outcome", "weight", "log_rho"),
    *("within", "between", "centred", "order", "position", "of_mean", "ratio"),
)
"""What columns are called inside, now or once, or might be."""
CLOTHES: dict[str, Callable[[Table], Table]] = {
    "categories": lambda t: t.astype(dict.fromkeys(texts(t), "category")),
    "categories that nothing is of": lambda t: t.assign(
        **{
            name: pd.Categorical(t[name], categories=[*sorted(set(t[name])), "none"])
            for name in texts(t)
        }
    ),
    "one index for all rows": lambda t: t.set_axis([0] * len(t)),
    "an index called as a column": lambda t: t.set_index("model_id", drop=False),
    "nullable": lambda t: t.convert_dtypes(),
    "arrow": lambda t: t.convert_dtypes(dtype_backend="pyarrow"),
    "texts of fixed width": lambda t: t.assign(
        **{name: t[name].to_numpy().astype("U20") for name in texts(t)}
    ),
    "small whole numbers": lambda t: t.astype(
        {name: "int16" for name in t if t[name].dtype == np.int64 and t[name].max() < 3000}
    ),
    "columns called as formulas and draws": lambda t: t.assign(
        C=1, Q="x", level=3, y=0, index=2, scale=1.0
    ),
    "columns called as those that laws compute": lambda t: t.assign(
        **{name: 7.0 for name in INSIDE if name not in t}
    ),
    "columns in another order": lambda t: t[list(t)[::-1]],
}


class LaidError(Exception):
    """Stops a fit before it draws."""

    def __init__(self, model: Any) -> None:
        self.model = model


def laid(fit: Callable[[Table], Any], table: Table) -> dict[str, np.ndarray]:
    """Arrays of the model that a fit would draw."""
    with pytest.raises(LaidError) as caught:
        fit(table)
    model = caught.value.model
    if isinstance(model, Sampled):
        return {
            name: values for name, values in model.data.items() if isinstance(values, np.ndarray)
        }
    nodes = model.nodes if isinstance(model, Mixture) else (model,)
    return {
        f"{place} {name}": values
        for place, node in enumerate(nodes)
        for name, values in {"y": node.y, "X": node.X, "error": node.error, **node.blocks}.items()
    }


@pytest.fixture(autouse=True)
def nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: object, **options: object) -> None:
        raise LaidError(self)

    for kind in (Gaussian, Sampled, Mixture):
        monkeypatch.setattr(kind, "sample", stop)


@pytest.mark.parametrize("name", CASES)
def test_clothes_change_nothing(name: str) -> None:
    good = CASES[name].good(12, 4)
    wanted = laid(CASES[name].fit, good)
    for what, put_on in CLOTHES.items():
        got = laid(CASES[name].fit, put_on(good.copy()))
        assert got.keys() == wanted.keys(), what
        for array, values in wanted.items():
            np.testing.assert_allclose(
                got[array], values, rtol=1e-12, atol=1e-12, err_msg=f"{what}: {array}"
            )
