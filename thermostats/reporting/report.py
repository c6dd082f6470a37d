"""Find what is stale in a report and build it: `thermostats report`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from thermostats.claims.study import choose_claims, list_scripts
from thermostats.errors import DataError, UsageError, make_list
from thermostats.formatting import format_count
from thermostats.next_steps import write_command
from thermostats.reporting.pages import (
    CHECKSUMS,
    INDEX,
    SNAPSHOT,
    TABLE,
    name_folder,
    name_single_file,
)
from thermostats.reporting.state import (
    ABOUT,
    NEW,
    State,
    describe_pages,
    locate_shipped_snapshot,
    read_manifest,
    write_files,
)
from thermostats.settings import (
    CALIBRATE_VARIABLE,
    DRAW_VARIABLE,
    THOROUGH_VARIABLE,
    set_level,
    set_variables,
)
from thermostats.tables import folders
from thermostats.tables.folders import hold_folder

STATES = {"built": "built", "fresh": "up to date", "stale": "stale", "broken": "failed"}


@dataclass(frozen=True)
class PageOutcome:
    """What became of one claim or page: `fresh`, `stale`, `built` or `broken`, and why."""

    claim: str
    status: str
    why: str = ""


@dataclass(frozen=True)
class ReportRun:
    """What a report run did: outcomes by claim, then files written and removed, relative to the
    report's folder."""

    ok: bool
    """No analysis broke; with `check`, nothing is stale."""
    out: str
    outcomes: tuple[PageOutcome, ...]
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    seconds: float = 0.0
    copies: int = 0
    """Of the files written those that are copies of tables and analyses, which do not lie within
    the folder that the report's folder is in: a report that is moved away from them takes them
    along."""
    differ: tuple[str, ...] = ()
    """Findings that differ from the folder's snapshot by more than chance explains, a line each."""

    def __repr__(self) -> str:
        """Lines for a terminal: what is not as it was, then a summary."""
        width = max((len(o.claim) for o in self.outcomes), default=0) + 2
        lines = []
        for o in self.outcomes:
            if o.status != "fresh":
                line = f"{o.claim:<{width}}{o.status:<8}{o.why}"
                lines.append(line.rstrip())
        lines += [f"differs from the snapshot: {line}" for line in self.differ]
        states = []
        for status, words in STATES.items():
            if names := [o.claim for o in self.outcomes if o.status == status]:
                states.append(f"{words}: {describe_pages(names)}")
        copies = ""
        if self.copies:
            copies = f", {self.copies} of them copies of tables and analyses that lie elsewhere,"
        written = (
            f"{format_count(len(self.written), 'file')} written{copies} in {self.seconds:.1f} s"
        )
        lines.append(f"{'; '.join(states)}; {written}")
        lines.append(f"{self.out}/index.html")
        return "\n".join(lines)


def report(
    claims: str | Sequence[str] | None = None,
    *,
    data: str | Path | None = None,
    out: str | Path = "reports",
    analyses: str | Path | None = None,
    check: bool = False,
    force: bool = False,
    draw: bool = False,
    thorough: bool = False,
    calibrate: bool = False,
    snapshot: bool = False,
    single_file: bool = False,
    processes: int | None = None,
) -> ReportRun:
    """Run the analyses whose script, code or rows changed and write the report.

    Parameters
    ----------
    claims : str or sequence of str
        One id such as C04, or several; their pages are written with the index, and those about all
        claims that the folder has already. None: all, and pages of claims that are no more are
        removed.
    data : str or Path
        A user's folder, read together with the package's own tables.
    out : str or Path
        Folder of the report.
    analyses : str or Path
        Folder of analyses; by default those that ship.
    check : bool
        Only list the stale ones.
    force : bool
        Run them all the same.
    draw : bool
        Also draw the posteriors that PyMC alone can draw, about a minute a claim; else their places
        show what the snapshot of this version has of them. No verdict reads them.
    thorough : bool
        Run all, draw, and fit again what was drawn under other priors and without each unit, which
        takes minutes a claim; else that is done for exact fits alone.
    calibrate : bool
        Run all, and simulate rules on rows whose design no table knows, at most 20 CPU-seconds a
        finding.
    snapshot : bool
        Draw, and write the files that are kept under version control, too, of all claims that the
        folder has.
    single_file : bool
        Write the page of each claim named as one HTML file for sending, too, figures inside.
    processes : int
        Analyses run side by side in so many; 1: in this one.

    Returns
    -------
    ReportRun
        What became of every page, and the files written and removed; its text is lines for a
        terminal.

    Raises
    ------
    UsageError
        For an unknown claim or folder, and for a snapshot that would lose claims, before anything
        is written.
    DataError
        Where a table is damaged or a file cannot be written, or a page is too large for one file.

    Examples
    --------
    >>> import thermostats
    >>> run = thermostats.report("C04", out="my-report", check=True)
    >>> [(outcome.claim, outcome.status) for outcome in run.outcomes]
    [('C04', 'stale')]
    """
    if not isinstance(out, (str, Path)):
        raise UsageError(
            "give the path of the report's folder", got=repr(out)[:60], allowed="text or a path"
        )
    started = time.perf_counter()
    folder = Path(out)
    claims = make_list(claims, "claims")
    paths = list_scripts(analyses if analyses is not None else folders.find_shipped("analyses"))
    ids = choose_claims(claims, paths)
    tables = folders.find_data_folder(data)
    if single_file and claims is None:
        raise UsageError(
            "one file a claim",
            allowed="claims by name",
            next_step=write_command("report", ids[0], "--single-file"),
        )
    written: list[str] = []
    removed: list[str] = []
    flags = {"draw": draw, "thorough": thorough, "calibrate": calibrate}
    options = [f"--{name}" for name, asked in flags.items() if asked]
    line = write_report_command(claims, {"data": data, "analyses": analyses}, options)
    draw = draw or thorough or snapshot
    anew = force or thorough or calibrate
    with nullcontext() if check else hold_folder(folder):
        manifest = read_manifest(folder)
        of_all = claims is None
        state = State(folder, tables, paths, manifest, all_claims=of_all, draw=draw, command=line)
        wanted = [*ids, *(state.pages if of_all else ())]
        reasons = {name: state.find_stale_reason(name) for name in wanted}
        gone = [name for name in state.records if name not in state.names] if of_all else []
        if check:
            return _build_check_run(state, reasons, gone, started)
        if snapshot:
            _require_whole(state, ids)
        if anew:
            reasons = {name: why or "forced" for name, why in reasons.items()}
        if snapshot or gone or any(reasons.values()) or _is_unfinished(state, reasons):
            from thermostats.reporting.build import build  # noqa: PLC0415

            variables = {
                DRAW_VARIABLE: draw,
                THOROUGH_VARIABLE: thorough,
                CALIBRATE_VARIABLE: calibrate,
            }
            switched_on = {name: "1" for name, asked in variables.items() if asked}
            with set_level(), set_variables(switched_on):
                written, removed = build(
                    state, reasons, gone, snapshot=snapshot, processes=processes, anew=anew
                )
        if single_file:
            written += _write_single_files(state, ids)
        state.note_origin()
    return _build_run(state, reasons, written, removed, started)


def _build_run(
    state: State,
    reasons: Mapping[str, str],
    written: Sequence[str],
    removed: Sequence[str],
    started: float,
) -> ReportRun:
    """What became of every page, and which files were written and removed."""
    outcomes = {}
    for name, why in reasons.items():
        if name in state.scripts:
            outcomes[name] = PageOutcome(name, *_describe_status(why))
    for name, error in state.errors.items():
        outcomes[name] = PageOutcome(name, "broken", error)
    copied = state.layout.copied.keys() & set(written) if written else set()
    seconds = time.perf_counter() - started
    made = tuple(sorted(written))
    gone = tuple(sorted(removed))
    differences = _list_differences(state)
    pages = tuple(outcomes.values())
    is_whole = not state.errors
    return ReportRun(is_whole, str(state.out), pages, made, gone, seconds, len(copied), differences)


def _write_single_files(state: State, ids: Sequence[str]) -> list[str]:
    """Write the pages of claims that the report has as one file each, called after their scripts;
    their names."""
    from thermostats.reporting.render import Page, build_single  # noqa: PLC0415

    def read(name: str) -> bytes:
        return (state.out / name).read_bytes()

    files = {}
    for claim in set(ids) - set(state.errors):
        text = (state.out / name_folder(claim) / INDEX).read_text(encoding="utf-8")
        page = Page(state.name_file(claim), text)
        files[name_single_file(state.scripts[claim])] = build_single(page, read)
    return write_files(state.out, files)


def write_report_command(
    claims: Sequence[str] | None,
    folders: Mapping[str, str | Path | None],
    options: Sequence[str] = (),
) -> str:
    """The command that makes such a report, but for the folder it goes to; of an absolute path its
    last part."""
    words: list[object] = list(claims or ["--all"])
    for name, folder in folders.items():
        if folder is not None:
            path = Path(folder)
            words += [f"--{name}", path.name if path.is_absolute() else path]
    return write_command("report", *words, *options)


def _build_check_run(
    state: State, reasons: dict[str, str], gone: Sequence[str], started: float
) -> ReportRun:
    reasons |= dict.fromkeys(gone, "its analysis no longer exists")
    if state.all_claims:
        reasons |= {name: state.find_stale_reason(name) for name in ABOUT}
        reasons[CHECKSUMS] = state.check_checksums()
    outcomes = []
    for name, why in reasons.items():
        outcomes.append(PageOutcome(name, "stale" if why else "fresh", why))
    fresh = not any(reasons.values())
    seconds = time.perf_counter() - started
    return ReportRun(fresh, str(state.out), tuple(outcomes), seconds=seconds)


def _require_whole(state: State, ids: Sequence[str]) -> None:
    """Raise UsageError where a snapshot of the report would lose claims that its folder has not
    built."""
    table = state.out / SNAPSHOT / TABLE
    if not table.is_file():
        return
    from thermostats.reporting.snapshot import read_findings  # noqa: PLC0415

    before = set(read_findings(table)["claim"]) & state.names
    if lost := sorted(before - {*ids, *state.records}):
        what = "the snapshot would lose claims that this report has not built"
        step = "thermostats report --all --snapshot"
        raise UsageError(what, where=state.out, got=", ".join(lost), next_step=step)


def _describe_status(why: str) -> tuple[str, str]:
    """The status of a claim that had a reason to be built, or none, and the reason; of a new one
    there is none."""
    return "built" if why else "fresh", "" if why == NEW else why


def _is_unfinished(state: State, fresh: Iterable[str]) -> bool:
    """Whether pages about all claims or checksums are stale, or files of tables are others than
    those on record."""
    if any(state.find_stale_reason(name) for name in state.about) or state.check_checksums():
        return True
    return any(state.records[name].tables != state.tables for name in fresh)


def _list_differences(state: State) -> tuple[str, ...]:
    """Findings that differ from the folder's snapshot; without one, what was drawn and differs from
    the shipped one."""
    snapshot = state.out / SNAPSHOT / TABLE
    shipped = locate_shipped_snapshot()
    has_earlier = snapshot.is_file() or (state.draw and shipped.is_file())
    if not has_earlier or not (state.out / TABLE).is_file():
        return ()
    from thermostats.reporting.snapshot import find_redrawn, list_differences, read_findings  # noqa: PLC0415

    now = read_findings(state.out / TABLE)
    try:
        if snapshot.is_file():
            return list_differences(snapshot, now, all_claims=state.all_claims)
        return find_redrawn(shipped, now)
    except DataError as error:
        return (f"it cannot be read: {error.what}",)
