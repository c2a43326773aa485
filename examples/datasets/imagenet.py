"""Folders of images as ImageNet has them: ``train/CLASS/*.JPEG`` and ``val/CLASS/*.JPEG``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from arrays import Images
from sources import DataError, checked_folder

ENDINGS = (".jpeg", ".jpg", ".png")


def image_folders(folder: Path, side: int = 64) -> Images:
    """Return the images of a folder: the shorter side scaled to `side` by area, and the middle cut out.

    Classes are the names of the folders of ``train``, in their order. All images are in memory at once: take a part of
    ImageNet. Needs Pillow. Raises DataError.
    """
    checked_folder(folder, "image folder", "train", "val")
    classes = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    if len(classes) < 2:
        raise DataError(f"{folder / 'train'}: {len(classes)} folders of classes: want at least two, train/CLASS/*.JPEG")
    unknown = sorted({path.name for path in (folder / "val").iterdir() if path.is_dir()} - set(classes))
    if unknown:
        raise DataError(f"{folder / 'val'}: class {unknown[0]} is not in train: want the same folders in both")
    parts = [_read(folder / split, classes, side) for split in ("train", "val")]
    return Images(folder.resolve().name, len(classes), *parts[0], *parts[1])


def _read(folder: Path, classes: list[str], side: int) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for number, name in enumerate(classes):
        for path in sorted((folder / name).glob("*")):
            if path.suffix.lower() in ENDINGS:
                images.append(_square(path, side))
                labels.append(number)
    if not images:
        raise DataError(f"{folder}: no images: want CLASS/*.JPEG, .jpg or .png")
    return np.stack(images), np.array(labels, np.int64)


def _square(path: Path, side: int) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise DataError("images are read by Pillow, which is not installed: pip install Pillow") from None
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
    except (OSError, SyntaxError) as error:
        raise DataError(f"{path}: no image ({error}): remove it") from None
    scale = side / min(picture.size)
    width, height = (max(side, round(scale * size)) for size in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BOX)
    left, top = (width - side) // 2, (height - side) // 2
    return np.asarray(picture.crop((left, top, left + side, top + side))).transpose(2, 0, 1).copy()
