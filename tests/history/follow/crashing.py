"""A file system that ends, as a machine does, before one of its changes; what was changed before stays."""

import shutil
from pathlib import Path
from typing import Any

from pyarrow import fs


class CrashError(OSError):
    """The process is taken not to go on from here."""


class CrashingHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """Counts what changes files, and fails from one of these on.

    Args:
        changes: so many are made; None: all.
    """

    def __init__(self, changes: int | None = None) -> None:
        self._system = fs.LocalFileSystem()
        self._left = changes
        self.made = 0

    def _change(self) -> None:
        if self._left is not None:
            if self._left <= 0:
                raise CrashError("crashed")
            self._left -= 1
        self.made += 1

    def get_type_name(self) -> str:
        return "crashing"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Any) -> Any:
        return self._system.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._system.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        if not Path(path).is_dir():
            self._change()
            self._system.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        # one after the other, as a directory is deleted
        for each in sorted(Path(path).rglob("*")):
            if each.is_file():
                self._change()
                each.unlink()
        self._change()
        shutil.rmtree(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self._change()
        self._system.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self._change()
        self._system.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        return self._system.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._system.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self._change()
        return self._system.open_output_stream(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError
