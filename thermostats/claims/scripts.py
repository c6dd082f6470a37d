"""Which analyses a folder has, by the claims that they put to the test; loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from thermostats.claims.study import study_of
from thermostats.errors import DataError, UsageError, did_you_mean
from thermostats.next_steps import command

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit linear algebra to one thread, so that sums come in one order; read when numpy is loaded."""
NAME = re.compile(r"([a-z]\d\d)_\w+\.py")
"""A letter for whose claim it is (a study's, or u: the user's), two digits, what it is about."""


LATER = re.compile(r"partial\(\s*(fit_\w+)")
"""A fit that a script leaves for later."""


def by_law(paths: Mapping[str, Path]) -> list[tuple[str, ...]]:
    """Claims whose scripts leave fits of one law for later, which compile the same model, by law."""
    laws: dict[str, list[str]] = {}
    for claim, path in paths.items():
        for law in set(LATER.findall(path.read_text(encoding="utf-8"))):
            laws.setdefault(law, []).append(claim)
    return [tuple(claims) for claims in laws.values()]


def is_own(claim: str) -> bool:
    """True for a user's claim: one of no registered study."""
    return study_of(claim) is None


def scripts(analyses: str | Path) -> dict[str, Path]:
    """Scripts such as `c01_depth.py` of a folder by the claim's id (`C01`), in order.

    Raises UsageError where there is no such folder or no analysis in it, DataError where two are of one claim.
    """
    folder = Path(analyses)
    if not folder.is_dir():
        raise UsageError("no such folder of analyses", where=folder, next_step="name one with --analyses")
    paths: dict[str, Path] = {}
    for path in sorted(folder.glob("*.py")):
        if match := NAME.fullmatch(path.name):
            claim = match[1].upper()
            if claim in paths:
                raise DataError(f"two analyses of claim {claim}", where=folder, got=f"{paths[claim].name}, {path.name}")
            paths[claim] = path
    if not paths:
        raise UsageError(
            "no analyses in this folder",
            where=folder,
            allowed="files named like u01_depth.py",
            next_step=f"{command('new', 'claim', 'depth', folder=folder)} writes one",
        )
    return paths


def chosen(claims: Sequence[str] | None, paths: Mapping[str, Path]) -> list[str]:
    """Ids of the claims asked for, whatever their case; all without any.

    Raises UsageError for one that the folder does not have.
    """
    if claims is None:
        return list(paths)
    wanted = [claim.upper() for claim in claims]
    if unknown := [claim for claim in wanted if claim not in paths]:
        elsewhere = all(map(is_own, paths)) and not is_own(unknown[0])
        shipped = "claims that ship with the package are reported without --analyses"
        other = shipped if elsewhere else "thermostats ls claims"
        padded = f"{unknown[0][:1]}{unknown[0][1:].zfill(2)}"  # C4 is C04, not C14
        step = f"did you mean {padded}?" if padded in paths else did_you_mean(unknown[0], paths, other)
        raise UsageError("no such claim", got=", ".join(unknown), allowed=", ".join(paths), next_step=step)
    return list(dict.fromkeys(wanted))


def with_words(script: Path) -> list[Path]:
    """An analysis and the file of its words, where it has one."""
    return [path for path in (script, script.with_suffix(".md")) if path.is_file()]
