import io
import re
import struct
import sys
import tarfile
import zlib

import pytest

from nursery import english
from thermostats.errors import DataError, ThermostatsError


def serialised(lines, version=3):
    """A character vector as R writes it with serialize(), and in the lazy-load form with its length
    before it."""
    block = b"X\n" + struct.pack(">iii", version, 0x040201, 0x030500)
    block += struct.pack(">i", 5) + b"UTF-8" if version == 3 else b""
    block += struct.pack(">ii", 16, len(lines))
    for line in lines:
        block += struct.pack(">ii", 0x40009, len(line.encode())) + line.encode()
    return struct.pack(">i", len(block)) + zlib.compress(block)


BOOKS = [
    ["EMMA", "", "CHAPTER I", "", "Miss £ Woodhouse", "was handsome.", "", "Clever."],
    ["Chapter 1", "", "It is a truth."],
]
DATABASE = b"".join(map(serialised, BOOKS))


@pytest.mark.parametrize("version", [2, 3])
def test_vectors_of_a_database_in_their_order(version):
    assert list(english.vectors(b"".join(serialised(book, version) for book in BOOKS))) == BOOKS


@pytest.mark.parametrize(
    "damaged",
    [
        DATABASE[:-3],
        DATABASE[:2],
        b"\0" * 50,
        DATABASE[:1] + b"\1" + DATABASE[2:],
        serialised(["x"], 4),
    ],
    ids=["cut", "cut in a length", "no stream", "wrong length", "unknown version"],
)
def test_a_damaged_database_is_not_read(damaged):
    with pytest.raises(DataError, match=r"database cannot be read.*--text"):
        list(english.vectors(damaged))


def test_a_vector_of_another_type_is_not_read():
    block = b"X\n" + struct.pack(">iiiii", 2, 0, 0, 13, 0)
    with pytest.raises(DataError, match="not a character vector"):
        list(english.vectors(struct.pack(">i", len(block)) + zlib.compress(block)))


def test_chapters_without_titles_ends_and_broken_lines():
    text = "EMMA\n\nBy Jane Austen\n\nCHAPTER I\r\n\r\nOne\ntwo.\n\n\nThree.\n\nVOLUME II\n\n"
    text += "CHAPTER I\n\nFour.\n\nTHE END\n\nNext"
    assert english.documents(text) == ["CHAPTER I\nOne two.\nThree.\n", "CHAPTER I\nFour.\n"]


def test_a_chapter_named_in_a_sentence_is_no_heading():
    assert (
        len(english.documents("Chapter 1\n\nSee\nchapters of it, and a chapter in Chapter 2.\n"))
        == 1
    )


def test_form_feeds_keep_everything():
    assert english.documents("Before.\n\fChapter 1\n\nText\f\f") == [
        "Before.\n",
        "Chapter 1\nText\n",
    ]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Stand-ins for apt-get and dpkg-deb in front of all others: the one leaves a package, the
    other its files' tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo("./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
        member.size = len(DATABASE)
        tar.addfile(member, io.BytesIO(DATABASE))

    def add(name, code):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{code}\n")
        path.chmod(0o755)

    add(
        "apt-get",
        "assert sys.argv[1] == 'download'; pathlib.Path(sys.argv[2] + "
        "'_1.0_all.deb').write_bytes(b'!')",
    )
    (tmp_path / "files.tar").write_bytes(stream.getvalue())
    add(
        "dpkg-deb",
        f"sys.stdout.buffer.write(pathlib.Path({str(tmp_path / 'files.tar')!r}).read_bytes())",
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    return add


def test_fetched_books_are_the_packages(programs):
    assert english.documents(english.fetch()) == [
        "CHAPTER I\nMiss £ Woodhouse was handsome.\nClever.\n",
        "Chapter 1\nIt is a truth.\n",
    ]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "sys.exit('E: Unable to locate package')",
            r"apt-get failed .*Unable to locate package.*apt-get update.*--text",
        ),
        ("", "downloaded no package"),
    ],
)
def test_no_package_to_be_had(programs, code, message):
    programs("apt-get", code)
    with pytest.raises(ThermostatsError, match=message):
        english.fetch()


def test_a_package_without_the_texts(programs, tmp_path):
    with tarfile.open(tmp_path / "files.tar", "w"):
        pass
    with pytest.raises(DataError, match=re.escape("the package has no texts (r-cran-janeaustenr)")):
        english.fetch()


def test_a_machine_without_apt(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ThermostatsError, match=r"apt-get is not on this machine.*--text"):
        english.fetch()
