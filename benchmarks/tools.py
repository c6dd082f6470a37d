"""What other tools read of BLOOM, Gemma-2, OLMo-2, GLM-4 and others, held to the identities of
`thermostats prove`.

Tiny models of these classes with random weights, those of the conformance suite. Run it in an
environment that has a tool, made by `pip install torch==2.13.0 nnterp 'nnsight<0.8' pytest
'.[measure]'`. Every tool that is installed there has its lines written anew, by its version and
that of nnsight, in `results/tools.csv`, from which `results/tools.md` is made; `--page` makes that
alone.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "measurement"))

CLASSES = {
    "bloom": "BLOOM",
    "gemma2": "Gemma-2",
    "olmo2": "OLMo-2",
    "glm4": "GLM-4",
    "gemma3_text": "Gemma-3",
    "granite": "Granite",
    "gpt_neox": "GPT-NeoX",
    "gpt2": "GPT-2",
    "llama": "Llama",
}
TABLE = ROOT / "benchmarks" / "results" / "tools.csv"
PAGE = TABLE.with_suffix(".md")
KEY = ["tool", "version", "nnsight", "architecture"]
COLUMNS = [*KEY, "transformers", "torch", "what", "name", "state", "difference", "place", "why"]
SHOWN = {
    "residual": "writes add up",
    "states": "states",
    "norms": "norms",
    "attention_write": "attention's write",
    "mlp_write": "feed-forward write",
}
"""Lines that the page shows."""
OURS = "thermostats"


def find_version(package: str) -> str:
    """The version of a package; empty: it is not installed."""
    with suppress(PackageNotFoundError):
        return version(package)
    return ""


def hold(name: str, tool: str) -> list[dict[str, Any]]:
    """Lines of one class: ours, and those of a tool, or the one that says why it has none."""
    import tiny  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    from thermostats.errors import UsageError  # noqa: PLC0415
    from thermostats.measurement.other_tools import TOOLS  # noqa: PLC0415
    from thermostats.measurement.proving import prove  # noqa: PLC0415

    kind, arguments = tiny.CONFIGURATIONS[name]
    model = tiny.build_whole(getattr(transformers, kind)(**arguments))
    number = find_version(TOOLS[tool].package)
    of_class = {
        "architecture": name,
        "transformers": version("transformers"),
        "torch": version("torch").split("+")[0],
    }
    theirs = {
        **of_class,
        "tool": tool,
        "version": number,
        "nnsight": find_version("nnsight") * (tool != "transformer-lens"),
    }
    ours = {
        **of_class,
        "tool": OURS,
        "version": version("thermostats") if find_version("thermostats") else "",
        "nnsight": "",
    }
    try:
        proof = prove(model, tool=tool)
    except UsageError as error:
        return [
            {**theirs, "what": "refused", "state": "refused", "why": f"{error.what}: {error.got}"}
        ]
    assert proof.tool is not None  # noqa: S101
    lines = [make_line(ours, "identity", each) for each in proof.identities]
    lines += [make_line(theirs, "identity", each) for each in proof.tool.identities]
    return lines + [make_line(theirs, "agreement", each) for each in proof.tool.agreement]


def make_line(facts: dict[str, Any], what: str, each: Any) -> dict[str, Any]:
    """A line of the table."""
    said = {name: getattr(each, name) for name in ("name", "state", "difference", "place", "why")}
    return {**facts, "what": what, **said}


def make_page(table: pd.DataFrame) -> str:
    """The table as a page: a line a class and tool."""
    rows = [
        "# What other tools read, beside this package",
        "",
        "Tiny models with random weights; float32. Each cell: the largest relative difference; "
        "**bold** where it is",
        "more than rounding. Writes add up: stream after a block = stream before it + attention's "
        "write + that of",
        "the feed-forward layer, with the tool's own tensors. The last two columns: how far the "
        "tool's tensor named",
        "as that write is from what is added to the stream. nnsight names no places: it reads at "
        "those of our",
        "entries. Made by `benchmarks/tools.py`.",
        "",
        f"| class | tool | {' | '.join(SHOWN.values())} | what explains it |",
        "|---|---|" + "---:|" * len(SHOWN) + "---|",
    ]
    for (name, tool, number, nnsight), lines in table.groupby(
        ["architecture", "tool", "version", "nnsight"], sort=False
    ):
        called = " ".join(
            filter(
                None,
                (tool, number, f"(nnsight {nnsight})" if nnsight and tool != "nnsight" else ""),
            )
        )
        cells = [format_cell(lines, each) for each in SHOWN]
        why = "; ".join(
            dict.fromkeys(each.rpartition(": ")[2] for each in lines["why"] if ": " in each)
        )
        refused = lines.loc[lines["state"] == "refused", "why"]
        rows.append(
            f"| {CLASSES[name]} | {called} | {' | '.join(cells)} | "
            f"{refused.iloc[0] if len(refused) else why} |"
        )
    return "\n".join(rows) + "\n"


def format_cell(lines: pd.DataFrame, name: str) -> str:
    """One number of a class and tool."""
    found = lines[lines["name"] == name]
    if found.empty or pd.isna(found["difference"].iloc[0]):
        return ""
    number = f"{found['difference'].iloc[0]:.1e}"
    return f"**{number}**" if found["state"].iloc[0] == "fails" else number


def main() -> None:
    """Hold every tool that is installed, and write table and page."""
    parser = ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--tools", nargs="*", help="these alone of those that are installed")
    kept = (
        pd.read_csv(TABLE, dtype=str, keep_default_na=False)
        if TABLE.is_file()
        else pd.DataFrame(columns=COLUMNS)
    )
    arguments = parser.parse_args()
    if not arguments.page:
        from thermostats.measurement.other_tools import TOOLS  # noqa: PLC0415

        tools = [name for name, tool in TOOLS.items() if find_version(tool.package)]
        tools = [name for name in tools if name in (arguments.tools or tools)]
        lines = [each for name in CLASSES for tool in tools for each in hold(name, tool)]
        new = pd.DataFrame(lines, columns=COLUMNS).drop_duplicates([*KEY, "what", "name"])
        new["difference"] = [f"{each:.3g}" if pd.notna(each) else "" for each in new["difference"]]
        new = new.fillna("").astype(str)
        done = set(new[KEY].itertuples(index=False, name=None))
        stays = [row not in done for row in kept[KEY].itertuples(index=False, name=None)]
        kept = pd.concat([kept[stays], new]).sort_values(
            ["architecture", "tool", "version"], kind="stable"
        )
        order = list(CLASSES)
        kept = kept.sort_values("architecture", key=lambda x: x.map(order.index), kind="stable")
        kept.to_csv(TABLE, index=False)
    shown = kept.assign(difference=pd.to_numeric(kept["difference"], errors="coerce"))
    PAGE.write_text(make_page(shown), encoding="utf-8")


if __name__ == "__main__":
    main()
