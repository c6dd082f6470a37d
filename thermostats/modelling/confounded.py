"""Facts that go with a group: how nearly a property of models is the group's own, so that the two cannot be separated.

φ = (ad − bc) / √((a + b)(c + d)(a + c)(b + d)) of group and property, a of a + b models of the group and c of the c + d
others having it: 1 where the property is the group, 0 where the two do not go together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

LARGE = 0.5
"""φ from which on a property is named: Cohen's large effect."""


def confounded(rows: pd.DataFrame, focal: pd.Series[bool], facts: Iterable[str], least: float = LARGE) -> pd.DataFrame:
    """Values of facts whose φ with the focal group is at least `least`, largest first.

    Columns: fact, value, inside, n_inside, outside, n_outside, phi. Models whose fact is not stated are left out of it.
    """
    found = []
    for fact in facts:
        stated = rows[fact].notna() & (rows[fact].astype(str) != "")
        values, group = rows.loc[stated, fact].astype(str), focal[stated].to_numpy(bool)
        for value in sorted(set(values)):
            has = (values == value).to_numpy()
            if has.all() or group.all() or not group.any():
                continue
            phi = float(np.corrcoef(has, group)[0, 1])
            counts = (int(has[group].sum()), int(group.sum()), int(has[~group].sum()), int((~group).sum()))
            found.append((fact, value, *counts, phi))
    columns = ["fact", "value", "inside", "n_inside", "outside", "n_outside", "phi"]
    table = pd.DataFrame(found, columns=columns)
    table = table[table["phi"] >= least]
    return table.sort_values("phi", ascending=False, kind="stable", ignore_index=True)
