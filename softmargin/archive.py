"""Arrays and a description in one file: how models and checkpoints are kept.

A NumPy ``.npz`` without pickled objects: nothing in it can run code, every array carries a checksum, and NumPy alone
reads it. The description is JSON in the array ``about``. Files are written beside their place and moved there when they
are whole, so that a crash or a full disk leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose contents take the place of `path` when the block ends well, and vanish when it does not."""
    path = Path(os.path.realpath(os.fsdecode(path)))
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a file that can be replaced: choose another path")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.touch(exist_ok=False)
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror or error}; choose a folder that exists and is writable"
        ) from error
    try:
        if path.exists():
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        with open(beside, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:  # as when a disk is full
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


class _Writable(Exception):
    """Raised to give up writing once it is known to work."""


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, before any work; leaves nothing behind."""
    with contextlib.suppress(_Writable), replacing(path):
        raise _Writable


def write(path: str | os.PathLike[str], kind: str, schema: int, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a file of the given kind and schema version."""
    text = json.dumps({"kind": kind, "schema": schema, **about})
    with replacing(path) as stream:
        np.savez(stream, about=np.array(text), **arrays)


def read(path: str | os.PathLike[str], kind: str, schema: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the arrays of a file, refused unless it is whole and of the given kind and schema."""
    with open(path, "rb") as stream:
        try:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is not even a zip file")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(str(arrays.pop("about")))
            found = about.pop("kind"), about.pop("schema")
        except Exception as error:  # a damaged or forged file can make NumPy raise whatever there is
            if isinstance(error, OSError) and error.errno is not None:  # the system's trouble, not the file's
                raise
            reason = "it holds pickled objects" if "pickle" in str(error) else str(error) or type(error).__name__
            raise ValueError(
                f"{path} is not a softmargin {kind}, or it is damaged ({reason}); the file was left as it is"
            ) from error
    if found[0] != kind:
        raise ValueError(f"{path} is a softmargin {found[0]}, not a {kind}; the file was left as it is")
    if found[1] != schema:
        raise ValueError(
            f"{path} has version {found[1]} of the {kind} format and this softmargin reads version {schema}: "
            "use the release that wrote it; the file was left as it is"
        )
    return about, arrays
