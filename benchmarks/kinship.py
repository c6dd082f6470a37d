"""How well a lineage is got back from weights where it is known: `results/kinship.csv`.

By spectra, of the tables that ship: the nursery's tuned models and their bases, the encoders
`rxnfp`, two sizes of one recipe. By weights: `--train DIR` trains 16 small models there (four
recipes of 400 steps, each tuned in three ways for 120) on the nursery's corpora, English being the
pages of `docs/`; `--rxnfp DIR` compares the encoders of the package `rxnfp` 0.1.0 unpacked in
DIR.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import thermostats
from thermostats.tables.tree import Tree
from thermostats.tables.tree_of_models import compare_groups

TABLE = Path(__file__).parent / "results" / "kinship.csv"
COLUMNS = ["models", "by", "question", "right", "of", "by_chance"]
Row = tuple[str, str, str, float, float, float]


def spectra() -> pd.DataFrame:
    """Rows of table weights with the model's id, of runs that have heads."""
    runs = thermostats.load("runs")[["run_id", "model_id", "revision"]]
    rows = thermostats.load("weights").merge(runs, on="run_id")
    heads = rows[(rows["head"] != "") & rows["matrix"].isin(["W_V", "W_O"])]
    return rows[rows["run_id"].isin(heads["run_id"])]


def nearest(name: str, by: str, distances: pd.DataFrame, parents: Mapping[str, str]) -> Row:
    """For how many children the nearest model is the parent or a sibling of theirs; by chance: a
    model at random."""
    d = distances.mask(np.eye(len(distances), dtype=bool))
    kin = {
        child: ({parent, *(other for other, above in parents.items() if above == parent)} & set(d))
        - {child}
        for child, parent in parents.items()
    }
    right = sum(d[child].idxmin() in near for child, near in kin.items())
    chance = sum(len(near) / (len(d) - 1) for near in kin.values())
    return name, by, "nearest model is the parent or a sibling", right, len(parents), chance


def groups(
    name: str, by: str, distances: pd.DataFrame, parents: Mapping[str, str], seed: int = 1
) -> Row:
    """How many groups of a base and its tunings neighbour joining has; by chance: the mean of 200
    shuffles of names."""
    found, models = thermostats.neighbour_joining(distances), list(distances)
    declared = thermostats.tree(
        pd.DataFrame({"model_id": models, "parent": [parents.get(model, "") for model in models]})
    )
    rng = np.random.default_rng(seed)
    shuffled = [
        compare_groups(declared, renamed(found, models, rng), models)["recovered"].sum()
        for _ in range(200)
    ]
    table = compare_groups(declared, found, models)
    return (
        name,
        by,
        "base and tuned are a group of the joined tree",
        table["recovered"].sum(),
        len(table),
        np.mean(shuffled),
    )


def renamed(tree: Tree, models: list[str], rng: np.random.Generator) -> Tree:
    """The same tree with its models shuffled."""
    new = dict(zip(models, rng.permutation(models), strict=True))
    edges = tree.edges()
    edges = edges.assign(name=edges["name"].replace(new), parent=edges["parent"].replace(new)).drop(
        columns="height"
    )
    top = pd.DataFrame(
        [{"name": new.get(tree.names[0], tree.names[0]), "parent": "", "length": 0.0}]
    )
    return Tree.build(pd.concat([top, edges], ignore_index=True))


def by_spectra() -> Iterator[Row]:
    """Rows of the tables that ship."""
    rows, lineage = spectra(), thermostats.load("lineage")
    nursery = rows[rows["model_id"].str.match(r"nursery/r\d\d-\d")]
    parents = dict(
        lineage.loc[
            lineage["parent"].str.startswith("nursery/r"), ["model_id", "parent"]
        ].to_numpy()
    )
    angles = thermostats.spectral_angles(nursery)
    title = "nursery, 96 and 16 tuned of them"
    yield nearest(title, "spectra", angles, parents)
    yield groups(title, "spectra", angles, parents)
    yield of_one_shape(title, angles, nursery, parents)
    bases = [name for name in angles if not name.endswith("-tuned")]
    recipes = {name: name.split("-")[0] for name in bases}
    row = nearest("nursery, 96", "spectra", angles.loc[bases, bases], recipes)
    yield (*row[:2], "nearest model is of the same recipe", *row[3:])
    real = thermostats.spectral_angles(rows[~rows["model_id"].str.startswith("nursery/")])
    tuned = {
        "rxnfp/bert_ft": "rxnfp/bert_pretrained",
        "rxnfp/bert_ft_10k_25s": "rxnfp/bert_pretrained",
    }
    yield nearest(f"{len(real)} trained models", "spectra", real, tuned)
    sizes = {f"Qwen/Qwen2.5-Coder-{size}-Instruct": "Qwen2.5-Coder" for size in ("0.5B", "1.5B")}
    row = nearest(f"{len(real)} trained models", "spectra", real, sizes)
    yield (*row[:2], "nearest model is the other size of Qwen2.5-Coder", *row[3:])


def of_one_shape(
    title: str, angles: pd.DataFrame, rows: pd.DataFrame, parents: Mapping[str, str]
) -> Row:
    """The parent among models of its depth and number of heads, whose spectra the shape does not
    tell apart."""
    shape = (
        rows.groupby("model_id")
        .agg(depth=("layer", "max"), heads=("head", "nunique"))
        .apply(tuple, axis=1)
    )
    alike = {
        child: [x for x in angles if shape[x] == shape[child] and x != child] for child in parents
    }
    right = sum(
        angles.loc[alike[child], child].idxmin() == parent for child, parent in parents.items()
    )
    chance = sum(1 / len(others) for others in alike.values())
    return (
        title,
        "spectra",
        "nearest model of the same depth and heads is the parent",
        right,
        len(parents),
        chance,
    )


def by_weights(folder: Path) -> Iterator[Row]:
    """Bases and tuned models trained in a folder."""
    trained(folder)
    found = {
        path.parent.parent.name: path.parent
        for path in sorted(folder.glob("models/*/step*/model.safetensors"))
    }
    models = {name: path for name, path in found.items() if "again" not in name}
    parents = {name: "-".join(name.split("-")[:2]) for name in models if name.count("-") > 1}
    distances = thermostats.weight_distances(models)
    title = f"{len(models)} small models, {len(parents)} tuned for 120 steps after 400"
    yield nearest(title, "weights", distances, parents)
    yield groups(title, "weights", distances, parents)


def trained(folder: Path) -> None:
    """Four recipes and their tunings, once."""
    from nursery import corpora, tuning  # noqa: PLC0415
    from nursery.designs import Design  # noqa: PLC0415
    from nursery.pack_training import run  # noqa: PLC0415
    from nursery.recipes import OPTIMISERS, Recipe  # noqa: PLC0415
    from nursery.records import RECORD, model_folder  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    pages = sorted(Path(__file__).parents[1].glob("docs/**/*.md"))
    (folder / "pages.txt").write_text("\f".join(page.read_text(encoding="utf-8") for page in pages))
    corpora.build(folder, folder / "pages.txt")
    plain = Recipe(
        "a", "english", "adamw", 3e-3, 0.5, "cosine", 0.1, 8, 400, 0.5, 0.5, 0.1, 0.0, 1.0
    )
    recipes = tuple(
        replace(plain, name=name, optimiser=kind)
        for name, kind in zip("abcd", OPTIMISERS, strict=True)
    )
    design = Design(
        "kinship", 1, 128, 1.0, 0, {"L": [2], "rho": [0.125], "d": [32]}, recipes, shares=(0.0, 1.0)
    )
    for pack in design.packs():
        for record in run(pack, folder):
            place = model_folder(folder, record.model) / RECORD
            place.write_text(json.dumps(vars(record) | {"learned": True}))
    for pack in tuning.tuned_packs(design, folder):
        run(pack, folder)


def by_package(folder: Path) -> Iterator[Row]:
    """The package rxnfp: of three models, the branch to the pretrained one as a share of all."""
    models = {path.parent.name: path.parent for path in sorted(folder.rglob("pytorch_model.bin"))}
    tree = thermostats.neighbour_joining(
        thermostats.weight_distances(models), root="bert_pretrained"
    )
    edges = tree.edges().set_index("name")["length"]
    share = edges[[name for name in edges.index if name.startswith("joint")]].sum() / edges.sum()
    yield (
        "rxnfp, 3 encoders",
        "weights",
        "share of the tree between the pretrained model and where its tunings part",
        share,
        1,
        1 / 3,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--rxnfp", type=Path)
    arguments = parser.parse_args()
    rows = [*by_spectra()]
    rows += by_weights(arguments.train) if arguments.train else []
    rows += by_package(arguments.rxnfp) if arguments.rxnfp else []
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.to_csv(TABLE, index=False, float_format="%.3g", lineterminator="\n")
    print(table.to_string())


if __name__ == "__main__":
    main()
