"""Files that are whole or not there."""

import os
import stat
import threading

import numpy as np
import pytest

from softmargin import archive


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "file"
    arrays = {"a": np.arange(3), "b": np.array(["x", "y"])}
    archive.write(path, "thing", 7, {"n": 1, "list": [1.5, None]}, arrays)
    about, found = archive.read(path, "thing", 7)
    assert about == {"n": 1, "list": [1.5, None]}
    assert {name: array.tolist() for name, array in found.items()} == {"a": [0, 1, 2], "b": ["x", "y"]}


def test_a_block_that_fails_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail():
        with archive.replacing(path) as stream:
            stream.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_named(tmp_path):
    def fill():
        with archive.replacing(tmp_path / "file"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device.*file"):
        fill()


def test_modes_are_kept_and_new_files_follow_the_umask(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(0o600)
    before = os.umask(0o027)
    try:
        for path in (old, new):
            with archive.replacing(path) as stream:
                stream.write(b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (old, new)] == [0o600, 0o640]


def test_writing_in_threads_does_not_touch_the_umask(tmp_path):
    before = os.umask(0o022)
    os.umask(before)
    threads = [
        threading.Thread(target=lambda k=k: [archive.check_writable(tmp_path / f"{k}") for _ in range(50)])
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = os.umask(before)
    assert after == before
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["folder", "folder/no/file"])
def test_places_that_are_no_files(tmp_path, place):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        archive.check_writable(tmp_path / place)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_devices_are_not_replaced():
    with pytest.raises(OSError, match="null is not a file"):
        archive.check_writable("/dev/null")


def test_links_are_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with archive.replacing(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("content", [b"", b"hi", b"PK\x03\x04 and then nothing"])
def test_what_is_no_archive_says_why(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="file is not a softmargin thing, or it is damaged") as caught:
        archive.read(path, "thing", 1)
    assert "pickled" not in str(caught.value)
    assert path.read_bytes() == content
