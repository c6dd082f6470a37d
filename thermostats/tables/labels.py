"""Labels of models, labs, prompts and groups: when two are the same, and a question where only
their spelling differs.

A file or a merge makes 4.0 of 4, and spreadsheets are full of "Alpha ", "alpha" and no-break
spaces. A number is the label of its whole value. Texts are kept as they are; two of them that are
one text after NFKC, without spaces at the ends and in small letters, are asked about, since as
labels they would be two.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any

import pandas as pd

from thermostats.errors import UsageError
from thermostats.formatting import strip_owner
from thermostats.next_steps import Code, repeat_call, write_value
from thermostats.tables.entries import drop_empty
from thermostats.tables.validation import is_missing

WHOLE = re.compile(r"([+-]?\d+)\.0+")
"""A whole number as a float is written."""
UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
"""Characters without width."""


def convert_label(value: Any) -> str:
    """A label as text: a whole number as an integer is written, a text as it is."""
    if isinstance(value, str):
        return value
    text = str(value)
    number = None if isinstance(value, bool) else WHOLE.fullmatch(text)
    return number[1] if number else text


def normalise_spelling(value: Any) -> str:
    """What two labels that differ in spelling alone have in common, by which labels are
    compared."""
    text = _normalise_text(convert_label(value)).casefold()
    return number[1] if (number := WHOLE.fullmatch(text)) else text


def _normalise_text(text: str) -> str:
    return " ".join(UNSEEN.sub("", unicodedata.normalize("NFKC", text)).split())


def strip_lab(lab: str) -> str:
    """A lab's name without capitals, spaces and signs."""
    return "".join(filter(str.isalnum, normalise_spelling(lab)))


def find_model_name(name: str, model_ids: Collection[str]) -> str:
    """The model that a name stands for, with or without its owner and whatever its case; as it is
    where none, or more than one, is called so."""
    if name in model_ids:
        return name
    wanted = name.casefold()
    bare = []
    for each in model_ids:
        if wanted in (each.casefold(), strip_owner(each.casefold())):
            bare.append(each)
    return bare[0] if len(bare) == 1 else name


def list_unknown(frame: pd.DataFrame, whose: str, model_ids: Collection[str]) -> list[str]:
    """Models of the rows that the tables do not know, in the order of the rows.

    whose: the column of models.
    """
    names = frame[whose].dropna().astype(str).unique()
    return [name for name in names if find_model_name(name, model_ids) not in model_ids]


def convert_labels(values: pd.Series) -> pd.Series:
    """A column of labels as text; a label that is missing stays missing."""
    texts = []
    for value in values.astype(object):
        texts.append(None if is_missing(value) else convert_label(value))
    return pd.Series(texts, index=values.index, name=values.name, dtype=object)


def find_misspelt(values: Iterable[Any], others: Iterable[Any] = ()) -> dict[Any, Any]:
    """Labels among values whose spelling alone differs from one of `others`, or from a more
    frequent one of themselves.

    Each with that one, as both are in their columns.
    """
    counted: dict[str, list[Any]] = {}
    for value in values:
        if not is_missing(value):
            counted.setdefault(convert_label(value), [0, value])[0] += 1
    by_plainness = sorted(counted, key=lambda text: (-counted[text][0], text))
    ordered = sorted(by_plainness, key=lambda text: text != _normalise_text(text))
    meant = {}
    for value in reversed(list(others)):
        if not is_missing(value):
            meant[normalise_spelling(value)] = value
    misspelt: dict[Any, Any] = {}
    for text in ordered:
        written = counted[text][1]
        value = meant.setdefault(normalise_spelling(text), written)
        if convert_label(value) != text:
            misspelt[written] = value
    return misspelt


def find_grouped_misspelt(
    rows: pd.DataFrame, held: pd.DataFrame | None, label: str, within: str = ""
) -> dict[str, str]:
    """As `find_misspelt` of a column of texts, within each value of another column if one is named;
    empty is none."""
    by = [within] if within else []
    new = _list_distinct(rows, [*by, label])
    old = _list_distinct(rows[:0] if held is None else held, [*by, label])
    both = pd.concat([old, new]).drop_duplicates()
    spelt = {text: normalise_spelling(text) for text in both[label].unique()}
    both["spelling"] = both[label].map(spelt)
    odd = both[both.duplicated([*by, "spelling"], keep=False)].drop(columns="spelling")
    apart: dict[str, str] = {}
    for _, group in odd.groupby(within) if within else [("", odd)]:
        fresh = new.merge(group, on=[*by, label])[label]
        there = old.merge(group, on=[*by, label])[label]
        apart |= find_misspelt(fresh[~fresh.isin(there)], there)
    return apart


def _list_distinct(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The combinations of some columns that have a text in the last."""
    distinct = rows[columns].drop_duplicates()
    return distinct[distinct[columns[-1]] != ""]


def check_spelling(
    columns: Mapping[str, tuple[Iterable[Any], Iterable[Any]]], table: str = "df", step: str = ""
) -> None:
    """UsageError where labels of a column differ in spelling alone, from one another or from those
    known before.

    columns: values and known labels by name of the column. table: what the rows are called; the
    next step is the call that is being made with one spelling of each, or `step` with these rows
    for {}.
    """
    found = {name: find_misspelt(values, others) for name, (values, others) in columns.items()}
    renamed = drop_empty(found)
    if not renamed:
        return
    pairs = []
    for apart in renamed.values():
        pairs += [f"{each!r} and {meant!r}" for each, meant in apart.items()]
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    rows = Code(f"{table}.replace({write_value(renamed)})")
    same = step.format(rows.text) if step else repeat_call(rows) or rows.text
    raise UsageError(
        "labels that differ in spelling alone would count as several",
        where=", ".join(renamed),
        got="; ".join(pairs[:3]) + more,
        allowed="one spelling of each",
        next_step=f"if they are the same: {same}",
    )


def drop_unlabelled(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Rows in which none of these labels is missing or empty."""
    there = (rows[list(columns)].fillna("") != "").all(axis=1)
    return rows if there.all() else rows[there].reset_index(drop=True)


def find_repeated_texts(names: Sequence[str], texts: Sequence[str]) -> dict[str, list[str]]:
    """Prompts of one text that stands under several names, by that text."""
    by_text: dict[str, list[str]] = {}
    for name, text in zip(names, texts, strict=True):
        if text:
            by_text.setdefault(text, []).append(name)
    repeated_texts: dict[str, list[str]] = {}
    for text, of in by_text.items():
        if len(of) > 1:
            repeated_texts[text] = of
    return repeated_texts


SYNONYMS = {
    "model_id": "model model_name name hf_id id checkpoint modell modele modèle modelo",
    "heritage": "lab labs organisation organization org company owner vendor developer group maker "
    "team hersteller labor laboratoire fabricant fabricante laboratorio",
    "family": "families series familie famille familia",
    "prompt_id": "prompt prompts prompt_name text_id text sentence sentences",
    "layer": "block layer_no layer_idx layer_index layer_id",
    "n_layers": "layers depth num_hidden_layers num_layers n_layer blocks n_blocks num_blocks l "
    "schichten couches capas",
    "n_heads": "heads num_attention_heads num_heads n_head h köpfe têtes cabezas",
    "d_head": "head_dim",
    "d_model": "hidden hidden_size width dim n_embd breite largeur anchura",
    "n_params": "params parameters n_parameters num_parameters size params_m params_b parameter "
    "paramètres parámetros",
    "rho": "density head_density",
    "gain": "gains penultimate_gain last_gain max_gain growth ratio value y verstärkung ganancia",
    "se": "sem stderr std_err standard_error gain_se gain_sem error standardfehler",
    "L_star_first_sign_change": "l_star transition transition_layer",
    "norm": "norms resid_norm hidden_norm l2 l2_norm mean_norm last_token_norm",
}
"""Ours, or what it is of, to names in lower case."""
PLAIN_GAINS = ("gain", "gains", "growth", "ratio", "verstärkung", "ganancia")
"""What a gain is called where it is not said which."""
PER_CENT = {"percent", "percentage", "pct"}
"""Words in the name of a column that is in per cent."""
BESIDE_GAIN = PER_CENT | {
    *("mean", "avg", "average", "block", "blocks", "layer", "layers", "l", "per", "by", "of"),
    *("the", "residual", "resid", "stream", "norm", "value", "at", "last", "token", "g", ""),
}
"""Words that the name of a gain may have besides; any other, such as log, std or kv, forbids it."""
OF_BLOCKS = {
    *("penultimate", "max", "maximum", "normed", "geometric", "final", "first", "median", "block"),
    *("to", "final", "read"),
}
"""Words by which a gain says of which block, or block and norm, it is."""


def split_words(name: str) -> set[str]:
    """Words of a column's name, in small letters: `kvRatio_2` has kv, ratio and 2."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return {*re.split(r"[\W_]+", parted.casefold())}


def is_called_gain(name: str, *further: str) -> bool:
    """Whether a name is that of a gain, and of no logarithm, spread, ratio of gains or other ratio.

    further: words that it may have besides.
    """
    words = split_words(name)
    allowed = {*PLAIN_GAINS, *further} | BESIDE_GAIN
    says_gain = not words.isdisjoint(PLAIN_GAINS)
    return says_gain and words <= allowed and not compares_gains(words)


def compares_gains(words: Set[str]) -> bool:
    """Whether words say a ratio or growth of gains."""
    return bool({"gain", "gains"} & words) and bool({"ratio", "growth"} & words)


def is_per_cent(name: str) -> bool:
    """Whether a name says that its column is in per cent."""
    return "%" in name or bool(split_words(name) & PER_CENT)


def spell_name(name: str) -> str:
    """A column's name without capitals and signs: `# Layers` is layers, `Params (B)` params_b."""
    return re.sub(r"[\W_]+", "_", normalise_spelling(name)).strip("_")


def list_column_names(*ours: str) -> list[str]:
    """Names that columns of ours may have, our own first."""
    column_names: list[str] = []
    for each in ours:
        column_names.extend((each, *SYNONYMS.get(each, "").split()))
    return column_names


def guess_column(ours: str, there: Sequence[str]) -> str:
    """The likeliest of the columns that are there, whatever its spelling; empty where none fits."""
    spelt = {spell_name(name): name for name in reversed(there)}
    return next(filter(None, map(spelt.get, list_column_names(ours))), "")
