"""The columns of `features` that are told of are those that it has."""

from __future__ import annotations

import thermostats
from thermostats.tables.declare import FLAG
from thermostats.tables.feature_columns import TRANSITION, feature_columns


def test_every_column_is_told_of_in_its_order_with_its_type() -> None:
    table = thermostats.features()
    told = list(feature_columns())
    found = [name for name in table if not name.startswith("L_star_")]
    assert [each.column for each in told if not each.column.startswith(TRANSITION)] == found
    place = [each.column for each in told].index(TRANSITION)
    assert told[place + 1].column == f"{TRANSITION}_sd"
    assert told[place - 1].column == found[found.index("wv_norm") - 1]
    assert list(table)[list(table).index("wv_norm") - 1].startswith("L_star_")
    for each in told:
        if each.column in found:
            kind = str(table[each.column].dtype)
            assert kind == each.type or (each.type == FLAG and kind == "bool"), each
        assert each.meaning and "{" not in each.meaning
