from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing import active_children
from pathlib import Path

import pandas as pd
import pytest
from conftest import command, make_empty_store, snapshot
from workplaces import make_workplace, write_analysis, write_fitted, write_gains

import thermostats
from thermostats.claims import run as runner
from thermostats.claims.run import _order_jobs, run_all
from thermostats.claims.study import group_claims, list_scripts
from thermostats.errors import DataError, UsageError
from thermostats.reporting import build as builder
from thermostats.reporting import state
from thermostats.reporting.build import load_shipped_seconds
from thermostats.reporting.changed import Changes, compare_findings
from thermostats.reporting.pages import BEFORE, MADE_OF
from thermostats.reporting.report import ReportRun, report
from thermostats.reporting.state import read_manifest
from thermostats.settings import count_cores
from thermostats.tables.folders import find_shipped

Build = Callable[..., ReportRun]


@pytest.fixture
def workplace(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Path]:
    monkeypatch.setenv("THERMOSTATS_CACHE", str(tmp_path_factory.mktemp("cache")))
    return make_workplace(tmp_path)


@pytest.fixture(scope="session")
def report_of_two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a report that is built, and of what is kept of its findings; tests change
    copies."""
    places = {name: tmp_path_factory.mktemp(name) for name in ("two", "kept")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOSTATS_CACHE", str(places["kept"]))
        assert report(**make_workplace(places["two"]), processes=1).ok
    return places


@pytest.fixture
def built(workplace: dict[str, Path], report_of_two: dict[str, Path]) -> dict[str, Path]:
    """The workplace with its report."""
    for place in workplace.values():
        shutil.rmtree(place)
        shutil.copytree(report_of_two["two"] / place.name, place)
    shutil.copytree(report_of_two["kept"], os.environ["THERMOSTATS_CACHE"], dirs_exist_ok=True)
    return workplace


@pytest.fixture
def build(workplace: dict[str, Path]) -> Build:
    return lambda *claims, **options: report(
        list(claims) or None, **{**workplace, "processes": 1, **options}
    )


def statuses(result: ReportRun) -> dict[str, str]:
    return {outcome.claim: outcome.status for outcome in result.outcomes}


def verified(name: str, root: Path) -> subprocess.CompletedProcess[str]:
    asked = ["sha256sum", "--check", name]
    return subprocess.run(asked, cwd=root, capture_output=True, text=True, check=False)


def stale(result: ReportRun) -> set[str]:
    return {outcome.claim for outcome in result.outcomes if outcome.status == "stale"}


def test_a_second_run_writes_nothing(build: Build, workplace: dict[str, Path]) -> None:
    made = build()
    assert statuses(made) == {"C01": "built", "C02": "built"} and str(made).startswith(
        "C01  built\nC02  built\n"
    )
    before = {path: path.stat().st_mtime_ns for path in workplace["out"].rglob("*")}
    again = build()
    assert statuses(again) == {"C01": "fresh", "C02": "fresh"}
    assert again.ok and again.written == ()
    assert {path: path.stat().st_mtime_ns for path in workplace["out"].rglob("*")} == before
    assert build(check=True).ok


def test_what_is_fresh_is_known_without_reading_a_table(
    build: Build, built: dict[str, Path]
) -> None:
    large = [
        "jinja2",
        "matplotlib",
        "numpy",
        "pandas",
        "pyarrow",
        "pymc",
        "rich",
        "scipy",
        "statsmodels",
    ]
    code = (
        "import json, sys; from thermostats.reporting.report import report; places, large = "
        "json.load(sys.stdin)\n"
        "print(report(**places).written, [name for name in large if name in sys.modules])"
    )
    asked = json.dumps([{name: str(path) for name, path in built.items()}, large])
    done = subprocess.run(
        [sys.executable, "-c", code], input=asked, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("() []\n", "")


def test_a_changed_row_runs_only_its_reader_again(build: Build, built: dict[str, Path]) -> None:
    write_gains(built["data"], "meta/small", 0.6)
    checked = build(check=True)
    of_tables = set(state.list_table_pages())
    assert stale(checked) - of_tables == {"C01", "data", "index", "growth", "MANIFEST.sha256"}
    assert {"atlas", "lineage", "sources"} <= stale(checked)
    assert not checked.ok and "rows" in str(checked)
    result = build()
    assert statuses(result) == {"C01": "built", "C02": "fresh"}
    pages = {"index.html", "index.md", "data.html", "data.md", "thermostats-report.html"}
    drawn = {
        "atlas.html",
        "atlas.md",
        "atlas.csv",
        *(f"lineage.{kind}" for kind in ("html", "md", "csv", "svg")),
    }
    written = {name.split("/")[0] for name in result.written}
    written = {
        name for name in written if name.partition(".")[0] not in of_tables - {"atlas", "lineage"}
    }
    assert written == {"c01", "findings.csv", BEFORE, "MANIFEST.sha256", *pages, *drawn}
    assert len({record.tables for record in read_manifest(built["out"]).values()}) == 1
    assert build(check=True).ok


@pytest.mark.slow
def test_two_forced_runs_give_the_same_bytes_in_one_process_or_in_several(
    build: Build, workplace: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = make_workplace(tmp_path / "other")
    for place in (workplace, other):
        write_analysis(place["analyses"], "C02", "TII", draws=True)
        write_fitted(place["analyses"], "C03", "TII")
    build()
    first = snapshot(workplace["out"])
    assert build(force=True).written == ()
    report(**other, processes=2)
    apart = (
        ".made-of",
        ".seconds",
        "atlas",
        "thermostats-report",
        "manifest",
        "MANIFEST",
    )  # names its folders; the atlas is drawn in this process
    assert {name: content for name, content in first.items() if not name.startswith(apart)} == {
        name: content
        for name, content in snapshot(other["out"]).items()
        if not name.startswith(apart)
    }


def test_edited_and_missing_files_are_stale_and_built_again(
    build: Build, built: dict[str, Path]
) -> None:
    page, table = built["out"] / "c01" / "index.html", built["out"] / "findings.csv"
    good = page.read_bytes()
    page.write_bytes(good + b" ")
    table.unlink()
    checked = build(check=True)
    assert stale(checked) == {"C01", "index"}
    assert "c01/index.html was edited" in str(checked) and "findings.csv is missing" in str(checked)
    build()
    assert page.read_bytes() == good and table.is_file()


def test_a_changed_script_is_stale_and_one_that_is_gone_takes_its_pages_with_it(
    build: Build, built: dict[str, Path]
) -> None:
    keep = built["out"] / "c02" / "mine.txt"
    keep.write_text("not in the manifest")
    write_analysis(built["analyses"], "C01", "Meta", p=0.5)
    (built["analyses"] / "c02_gains.py").unlink()
    assert stale(build(check=True)) == {
        "C01",
        "C02",
        "data",
        "growth",
        "index",
        "worlds",
        "bundle",
        "MANIFEST.sha256",
    }
    assert "c02/index.html" in build().removed
    assert list((built["out"] / "c02").iterdir()) == [keep]
    assert build(check=True).ok
    assert "C02" not in (built["out"] / "index.md").read_text()


@pytest.mark.slow
def test_claims_of_another_folder_stay_in_a_report_of_some(
    workplace: dict[str, Path], tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    write_analysis(mine, "U01", "Meta")
    report("C01", **workplace)
    report("U01", **{**workplace, "analyses": mine})
    index = (workplace["out"] / "index.md").read_text()
    assert "C01" in index and "U01" in index
    table = (workplace["out"] / "findings.csv").read_text()
    assert "\nC01." in table and "\nU01." in table
    report("C01", **workplace)
    assert "U01" in (workplace["out"] / "index.md").read_text()
    assert report("C01", **workplace).written == ()


def test_a_broken_analysis_does_not_stop_the_others(
    build: Build, workplace: dict[str, Path]
) -> None:
    (workplace["analyses"] / "c03_broken.py").write_text("raise SystemExit(3)")
    result = build()
    assert statuses(result) == {"C01": "built", "C02": "built", "C03": "broken"}
    assert not result.ok and "SystemExit in c03_broken.py (line 1): 3" in str(result)
    assert "analysis failed" in (workplace["out"] / "index.md").read_text()
    assert statuses(build()) == {"C01": "fresh", "C02": "fresh", "C03": "broken"}


def test_an_error_names_the_line_and_old_verdicts_are_not_shown(
    build: Build, built: dict[str, Path]
) -> None:
    script = built["analyses"] / "c01_gains.py"
    script.write_text(script.read_text().replace("mean = ", "mean = 1 / 0 + "))
    said = str(build())
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if "1 / 0" in text)
    assert f"ZeroDivisionError in c01_gains.py (line {line})" in said
    assert not (built["data"] / "published").exists()
    assert "has no published tables; a store created by thermostats includes them" in said
    (row,) = re.findall(r"^\| \[?C01.*$", (built["out"] / "index.md").read_text(), re.M)
    assert "analysis failed" in row and "✔" not in row


MEAN = 'float(rows["gain_block"].mean())'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('Made("C01"', 'Made("C05"', "named after its claim"),
        ("    return [", "    return 2 * [", "the same estimand"),
        ("CLAIM = ", "TITLE = ", "must define CLAIM"),
        ("def analyse(tables):", "def analyse(tables:", "SyntaxError"),
        (
            MEAN,
            'rows["gain_blok"]',
            "KeyError in c01_gains.py (line 18): 'gain_blok'. Next: did you mean gain_block?",
        ),
        (MEAN, 'rows[["gain_blok"]]', 'in the [columns]". Next: did you mean gain_block?'),
        (MEAN, 'rows["zzz"]', "(line 18): 'zzz' "),
    ],
)
def test_what_is_wrong_with_an_analysis_is_named(
    build: Build, workplace: dict[str, Path], old: str, new: str, said: str
) -> None:
    script = workplace["analyses"] / "c01_gains.py"
    assert old in script.read_text()
    script.write_text(script.read_text().replace(old, new))
    result = build("C01")
    assert (
        statuses(result) == {"C01": "broken"}
        and said in str(result)
        and "c01_gains.py" in str(result)
    )
    assert ("did you mean" in str(result)) == ("gain_blok" in new)


def test_one_claim_alone_is_its_pages_and_the_index(
    build: Build, workplace: dict[str, Path]
) -> None:
    out = workplace["out"]
    assert statuses(build("c02")) == {"C02": "built"}
    own = {"c02/index.md", "c02/index.html", "c02/findings.json", "c02/table.csv"}
    shared = {"index.md", "index.html", "gain.svg", "findings.csv", "manifest.json"}
    shared |= {f"{name}.{kind}" for name in ("worlds", "methods") for kind in ("md", "html")}
    shared |= {"p-in-worlds.svg"}
    assert {name for name in snapshot(out) if not name.startswith(".")} == own | shared
    index = (out / "index.md").read_text()
    assert (
        "not built" in index and "`thermostats report c02 --data data --analyses analyses`" in index
    )
    pages = [(out / name).read_text() for name in ("index.html", "c02/index.html")]
    assert all("methods.html" in page and "data.html" not in page for page in pages)
    assert build("c02").written == ()
    with pytest.raises(UsageError, match=r"C09.*C01, C02"):
        build("C09")


def test_wrong_folders_and_a_damaged_manifest(
    build: Build, workplace: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no such folder of analyses"):
        build(analyses=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no analyses"):
        build(analyses=workplace["data"])
    (workplace["out"] / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        build()


def test_checksums_verify_where_the_report_lies(build: Build, built: dict[str, Path]) -> None:
    root = built["out"].parent
    done = verified("out/MANIFEST.sha256", root)
    assert done.returncode == 0, done.stdout
    listed = {
        line.split("  ", 1)[1]
        for line in (built["out"] / "MANIFEST.sha256").read_text().splitlines()
    }
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    hidden = {f"out/{name}" for name in ("MANIFEST.sha256", ".seconds.json", ".lock", MADE_OF)}
    assert files - listed == hidden
    assert listed <= files
    (built["out"] / "MANIFEST.sha256").write_text("")
    assert stale(build(check=True)) == {"MANIFEST.sha256"}


def test_a_report_elsewhere_takes_tables_and_analyses_along(build: Build, tmp_path: Path) -> None:
    out = tmp_path / "far" / "away"
    build(out=out)
    done = verified("away/MANIFEST.sha256", out.parent)
    assert done.returncode == 0
    assert (out / "data" / "models.csv").is_file() and (out / "analyses" / "c01_gains.py").is_file()
    assert str(tmp_path) not in (out / "data.html").read_text()


def test_a_copied_report_writes_what_differs_where_it_lies_now_and_says_so(
    build: Build, built: dict[str, Path], tmp_path: Path
) -> None:
    """Beside its tables only the checksums name its folder; away from them it takes them along."""
    near, far = tmp_path / "out2", tmp_path / "far" / "out"
    for out in (near, far):
        shutil.copytree(built["out"], out)
    assert build(out=near).written == ("MANIFEST.sha256",)
    moved = build(out=far)
    taken = {name for name in moved.written if name.startswith(("data/", "analyses/"))}
    assert set(moved.written) - taken == {
        "MANIFEST.sha256",
        "data.md",
        "data.html",
        "thermostats-report.html",
    }
    assert moved.copies == len(
        taken
    ) and f"{len(taken)} of them copies of tables and analyses" in str(moved)
    assert set(statuses(moved).values()) == {"fresh"} and build(out=far).written == ()


def ran(place: dict[str, Path]) -> int:
    """How often the analysis of `counting` was run."""
    noted = place["analyses"].parent / "ran"
    return len(noted.read_text()) if noted.is_file() else 0


@pytest.fixture
def counting(workplace: dict[str, Path]) -> dict[str, Path]:
    """The workplace, with one analysis that notes that it was asked."""
    script = write_analysis(workplace["analyses"], "C01", "Meta")
    noted = workplace["analyses"].parent / "ran"
    line = f'def analyse(tables):\n    open({str(noted)!r}, "a").write("1")\n'
    script.write_text(script.read_text().replace("def analyse(tables):\n", line))
    return workplace


def test_what_is_forced_is_made_anew_and_kept(build: Build, counting: dict[str, Path]) -> None:
    build("C01")
    build("C01", force=True)
    assert ran(counting) == 2
    (counting["out"] / "c01" / "index.md").unlink()
    assert statuses(build("C01")) == {"C01": "built"} and ran(counting) == 2


def test_what_another_folder_has_made_of_the_same_rows_is_not_made_again(
    build: Build, counting: dict[str, Path], tmp_path: Path
) -> None:
    build()
    assert (
        statuses(build(out=tmp_path / "other")) == {"C01": "built", "C02": "built"}
        and ran(counting) == 1
    )


def test_a_page_made_of_rows_of_before_is_stale_though_those_of_now_are_kept(
    build: Build, counting: dict[str, Path], tmp_path: Path
) -> None:
    """Rows change and change back: the second folder has the page of the rows between, and no
    finding is made again."""
    build()
    write_gains(counting["data"], "meta/small", 0.6)
    build(out=tmp_path / "other")
    write_gains(counting["data"], "meta/small", 0.5)
    assert build("C01", check=True).ok and not build("C01", out=tmp_path / "other", check=True).ok
    assert statuses(build("C01", out=tmp_path / "other")) == {"C01": "built"} and ran(counting) == 2


def test_where_nothing_is_kept_changed_tables_make_all_stale(
    build: Build, workplace: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    build()
    assert build(check=True).ok
    write_gains(workplace["data"], "meta/small", 0.6)
    assert {"C01", "C02"} <= stale(build(check=True))
    build()
    assert build(check=True).ok


def test_a_cache_that_cannot_be_written_is_done_without(
    build: Build,
    workplace: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build()
    capsys.readouterr()
    (tmp_path / "file").touch()
    monkeypatch.setenv("THERMOSTATS_CACHE", str(tmp_path / "file" / "cache"))
    assert statuses(build(out=tmp_path / "other")) == {"C01": "built", "C02": "built"}
    assert capsys.readouterr().err.count("the cache cannot be written") == 1
    pages = [snapshot(folder / "c01") for folder in (workplace["out"], tmp_path / "other")]
    assert pages[0] and pages[0] == pages[1]


def is_there(pid: int | None) -> bool:
    """Asked of the system: a child that the pool's own thread waited for stays alive in what
    `multiprocessing` says."""
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


PARENT = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from thermostats.claims.run import _ignore_interrupts
if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn"), _ignore_interrupts) as pool:
        pids = {pool.submit(os.getpid).result() for _ in range(2)} | set(pool._processes)
        for _ in range(2):
            pool.submit(time.sleep, 600)
        print(*pids, flush=True)
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert workers and all(map(is_there, workers))
        parent.kill()
    end = time.monotonic() + 3
    while any(map(is_there, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_there, workers))


@pytest.mark.slow
def test_a_process_that_dies_is_told_and_a_report_that_is_left_ends_its_processes(
    workplace: dict[str, Path],
) -> None:
    """Two processes: one leaves in the middle of its analysis; another would go on for ten
    minutes."""
    killer = workplace["analyses"] / "c03_dies.py"
    killer.write_text("import os\nos._exit(7)\n")
    done = command(
        "report",
        "C03",
        "--analyses",
        killer.parent,
        "--data",
        workplace["data"],
        "--out",
        workplace["out"],
    )
    assert done.returncode == 1
    assert "the process that ran it, or another process of the run, died" in done.stdout
    sleeper = workplace["analyses"] / "c04_sleeps.py"
    sleeper.write_text("import time\ntime.sleep(600)\n")
    runs = run_all(
        {"C01": workplace["analyses"] / "c01_gains.py", "C04": sleeper}, workplace["data"], 2
    )
    name, run = next(runs)
    assert (name, run.error) == ("C01", "")
    children = active_children()
    assert children
    runs.close()
    ended = time.monotonic() + 60
    while any(is_there(child.pid) for child in children) and time.monotonic() < ended:
        active_children()  # waits for those that ended
        time.sleep(0.05)
    assert not any(is_there(child.pid) for child in children)


def test_fits_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from thermostats.modelling import sampling

    monkeypatch.delenv(sampling.CORES_VARIABLE, raising=False)
    with runner._prepare_workers("1"):
        assert sampling._build_options(sampling.Settings())["cores"] == 1
    alone = sampling._build_options(sampling.Settings())["cores"]
    assert alone == min(4, count_cores())
    monkeypatch.setenv(sampling.CORES_VARIABLE, "2")
    with runner._prepare_workers("1"):
        assert (
            sampling._build_options(sampling.Settings())["cores"] == 2
        )  # what the user has set stays


def test_processes_of_a_report_give_back_memory_that_tables_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(runner.ARROW_POOL, raising=False)
    ask = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    with runner._prepare_workers("1"):
        said = subprocess.run(
            [sys.executable, "-c", ask], capture_output=True, text=True, check=True
        )
    assert said.stdout.strip() == "system"
    monkeypatch.setenv(runner.ARROW_POOL, "mimalloc")
    with runner._prepare_workers("1"):
        assert os.environ[runner.ARROW_POOL] == "mimalloc"  # what the user has set stays


HOW = """
import os, sys
from thermostats.reporting import report as engine
def report(*claims, processes, **options):
    print(processes, os.environ.get("OMP_NUM_THREADS"), "numpy" in sys.modules)
    sys.exit()
engine.report = report
{first}
from thermostats.cli.app import main
sys.argv = ["thermostats", "report", *{arguments}]
main()
"""
ONE = ["C17"]


@pytest.mark.parametrize(
    ("arguments", "first", "told"),
    [
        (ONE, "", "1 1 False"),
        ([*ONE, "c17"], "os.environ['OMP_NUM_THREADS'] = '2'", "1 2 False"),
        ([*ONE, "C18"], "", "None None False"),
        ([*ONE, "--analyses", str(find_shipped("analyses"))], "", "None None False"),
        (ONE, "import numpy", "None None True"),
    ],
)
def test_a_claim_of_the_package_alone_runs_here_in_one_thread(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], first: str, told: str
) -> None:
    """Processes; threads of linear algebra, where they can still be limited; and whether they
    cannot."""
    for name in runner.ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    done = command(code=HOW.format(first=first, arguments=arguments))
    assert done.stdout.strip() == told, done.stderr


def test_a_script_is_run_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "u01_own.py"
    script.write_text(
        "import os\nraise ValueError(f'{os.getpid()} {os.environ[\"OMP_NUM_THREADS\"]}')\n"
    )
    ((_, run),) = run_all({"U01": script}, make_empty_store(tmp_path))
    pid, threads = run.error.split(": ")[1].split()[:2]
    assert int(pid) != os.getpid()
    assert threads.startswith("1") or "OMP_NUM_THREADS" in os.environ


def test_what_compiles_the_same_is_run_by_one_process(tmp_path: Path) -> None:
    """Its results come in the order of the jobs, whatever else is run beside."""
    script = (
        "import os\nfrom thermostats.claims.claim import Claim\n\n\nclass Of(Claim):\n    def "
        "judge(self, *_):\n"
    )
    script += "        raise ValueError(os.getpid())\n\n\nCLAIM = Of('{0}', 't', 's', 'e', 'r')\n"
    jobs = {}
    for name in ("U01", "U02", "U03", "U04"):
        jobs[name] = tmp_path / f"{name.lower()}_one.py"
        jobs[name].write_text(script.format(name))
    runs = run_all(jobs, make_empty_store(tmp_path), 2, together=[("U02", "U04")])
    of = {name: run.error.rpartition(" ")[2] for name, run in runs}
    assert set(of) == set(jobs) and of["U02"] == of["U04"]
    assert _order_jobs(jobs, [("U04", "U02")]) == [("U01",), ("U02", "U04"), ("U03",)]


def test_claims_that_leave_fits_of_one_law_for_later_are_known_by_their_scripts() -> None:
    groups = group_claims(list_scripts(find_shipped("analyses")))
    assert ("C17", "C20") in groups
    assert groups == [("C02",), ("C02",), ("C17", "C20")], "C02 fits an envelope and a curve"


def test_a_new_machine_begins_with_what_took_long_elsewhere(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = list[str]()
    real = builder.run_all

    def noted(jobs: Mapping[str, Path | str], *args: object, **more: object) -> object:
        order.extend(jobs)
        return real(jobs, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builder, "run_all", noted)
    monkeypatch.setattr(
        builder, "load_shipped_seconds", lambda: {"C02": 9.0, "C01": 1.0, "atlas": 4.0}
    )
    build()
    assert [name for name in order if name in {"C01", "C02", "atlas"}] == ["C02", "atlas", "C01"]
    there = load_shipped_seconds()
    assert there and {name for name in there if name[1:].isdigit()} <= set(
        list_scripts(find_shipped("analyses"))
    )


def test_what_moved_since_the_rows_changed_is_named_before_and_now(
    build: Build, built: dict[str, Path]
) -> None:
    out = built["out"]
    build()
    write_gains(built["data"], "meta/small", 0.6)
    for _ in range(2):  # the second time nothing is made again, and the answer is the same
        moved = thermostats.findings(changed=True, out=out)
        assert moved["finding"].tolist() == ["C01.mean-gain"]
        assert "until its rows changed" in moved.attrs["compared_with"]
        (row,) = moved.to_dict("records")
        assert (row["moved"], row["estimate_before"], row["estimate_now"]) == ("estimate", 1.0, 1.2)
        assert row["shift"] == pytest.approx(0.2)
    done = command("findings", "--changed", "--out", str(out))
    assert "0 verdicts and 1 further estimate moved" in done.stdout
    assert "1.0 [0.0, 2.0] → 1.2 [0.2, 2.2]" in done.stdout
    write_gains(built["data"], "meta/small", 0.7)  # a second change: from .6, not from .5
    (row,) = thermostats.findings(changed=True, out=out).to_dict("records")
    assert (row["estimate_before"], row["estimate_now"]) == (1.2, pytest.approx(1.4))
    assert thermostats.findings("C02", changed=True, out=out).empty


def test_of_a_report_that_does_not_say_its_rows_nothing_is_compared(
    built: dict[str, Path], tmp_path: Path
) -> None:
    (built["out"] / MADE_OF).unlink()
    with pytest.raises(DataError, match=r"does not say which rows it is of.*report --all"):
        thermostats.findings(changed=True, out=built["out"])
    with pytest.raises(UsageError, match="no report yet"):
        thermostats.findings(changed=True, out=tmp_path / "new")


def finding_row(verdict: str, estimate: float, **more: object) -> dict[str, object]:
    row = {"claim": "C01", "finding": "C01.a", "evidence": "pooled", "verdict": verdict}
    row |= {"leans": "", "provisional": "", "estimate": estimate, "lower": 0.0, "upper": 1.0}
    return {**row, "n_models": 4, **more}


def test_verdicts_come_first_and_rounding_is_no_change() -> None:
    before = [finding_row("inconclusive", 0.5)]
    before += [finding_row("supported", 0.5, finding=f"C01.{n}") for n in "bcd"]
    now = [finding_row("supported", 0.5, n_models=5)]
    now += [
        finding_row("supported", 0.6, finding="C01.b"),
        finding_row("supported", 0.9, finding="C01.c"),
    ]
    now.append(finding_row("supported", 0.5 + 1e-12, finding="C01.d"))
    now.append(finding_row("supported", 0.5, evidence="own"))
    moved = compare_findings(pd.DataFrame(before), pd.DataFrame(now))
    assert moved[["finding", "moved"]].to_numpy().tolist() == [
        ["C01.a", "verdict"],
        ["C01.c", "estimate"],
        ["C01.b", "estimate"],
        ["C01.a", "new"],
    ]
    changes = Changes(moved, "Before: all.", 4)
    assert changes.write_sentences()[1] == (
        "Of 4 findings 1 verdict and 2 further estimates moved; 1 new on own."
    )
    assert changes.tabulate()[0]["verdict"] == "inconclusive → supported"
    assert changes.tabulate()[0]["models"] == "4 → 5"
