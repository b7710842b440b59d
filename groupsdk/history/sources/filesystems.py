"""Find the file system of a path or URI: this machine's, one that pyarrow supports, or one that only Spark supports."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


def local_path(path: str) -> Path | None:
    """Return the local path of a path or URI (`file:/a`, as Hadoop writes it, or `file:///a`); None for another file system."""
    if not _SCHEME.match(path):
        return _real(Path(path).expanduser())
    parts = urlsplit(path)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        return None
    return _real(Path(unquote(parts.path)))


def _real(path: Path) -> Path:
    # not `Path.resolve`, which raises where links lead in a circle
    return Path(os.path.realpath(path))


def file_system(path: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a path or URI, and the path on it; ConfigError if pyarrow does not support it here."""
    local = local_path(path)
    if local is not None:
        return fs.LocalFileSystem(), str(local)
    try:
        system, inner = fs.FileSystem.from_uri(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"pyarrow does not support the file system of {path}: {error}") from error
    return system, inner


def is_supported(path: str) -> bool:
    """Return whether workers can read and write there: on this machine, or on a file system that pyarrow supports."""
    try:
        file_system(path)
    except ConfigError:
        return False
    return True


def prepare_folders(path: str, folders: Sequence[str]) -> str | None:
    """Create or empty folders of a directory for tasks to write to; returns its path or URI for the workers.

    None, with nothing done, if pyarrow does not support its file system, though Spark may ("s3a://", "abfss://").
    """
    try:
        system, inner = file_system(path)
    except ConfigError:
        return None
    for folder in folders:
        place = f"{inner}/{folder}"
        if system.get_file_info(place).type != fs.FileType.NotFound:
            system.delete_dir(place)
        system.create_dir(place, recursive=True)
    return inner if local_path(path) is not None else path


class StorageDirectory:
    """A directory on this machine, or on any file system that the Spark session supports; for the driver.

    Without a session it is on this machine, under Spark Connect on this machine or on a file system that pyarrow supports.
    Raises ConfigError if the file system is not supported, or needs a session.
    """

    def __init__(self, spark: "SparkSession | None", root: str) -> None:
        self._system: Any
        self._arrow: Any = None
        self._local: Path | None
        if spark is not None and not hasattr(spark, "_jvm"):
            # Spark Connect: this process has no JVM
            self._local = local_path(root)
            self._arrow, self.root = file_system(root)
            self._system = None
            if self._local is None:
                self.root = root.rstrip("/")
            return
        if spark is None:
            self._local = local_path(root)
            if self._local is None:
                raise ConfigError(
                    f"{root} is not a directory on this machine, as --engine local needs: use --engine spark"
                )
            self.root, self._system = str(self._local), None
            return
        # PySpark has no call that lists, renames or deletes files. What pyarrow knows goes through pyarrow; Hadoop's own classes
        # are for file systems that only Spark knows ("s3a://", "abfss://"), and for Spark's default one
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._settings: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self.root = root.rstrip("/") or "/"
        if not _SCHEME.match(root) and self._default_scheme() != "file":
            # without a scheme it is on Spark's default file system, where everything is written
            self.root = self._system_of(root).makeQualified(self._path("")).toString()
        self._local = local_path(self.root)
        self._system = None if self._local is not None else self._system_of(root)

    def _default_scheme(self) -> str:
        return str(
            self._jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(self._settings).getScheme()
        )

    def _system_of(self, root: str) -> Any:
        try:
            return self._path("").getFileSystem(self._settings)
        except Exception as error:
            # py4j's, with Java's stack in it
            reason = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise ConfigError(
                f"Spark does not support the file system of {root}: {reason}"
            ) from error

    def exists(self, name: str) -> bool:
        if self._local is not None:
            return (self._local / name).exists()
        if self._arrow is not None:
            return bool(self._arrow.get_file_info(self._inner(name)).type != fs.FileType.NotFound)
        return bool(self._system.exists(self._path(name)))

    def delete(self, name: str) -> None:
        """Delete the file, or the directory with its contents, if it exists."""
        if self._local is None and self._arrow is not None:
            if self.exists(name):
                self._arrow.delete_dir(self._inner(name))
            return
        if self._local is None:
            self._system.delete(self._path(name), True)
            return
        place = self._local / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def move(self, source: str, target: str) -> None:
        """Move a directory; its parent is created. Raises ConfigError if the file system refused to move it."""
        if self._local is not None:
            (self._local / target).parent.mkdir(parents=True, exist_ok=True)
            (self._local / source).rename(self._local / target)
            return
        if self._arrow is not None:
            self._arrow.create_dir(self._inner(target).rpartition("/")[0], recursive=True)
            self._arrow.move(self._inner(source), self._inner(target))
            return
        self._system.mkdirs(self._path(target).getParent())
        if not self._system.rename(self._path(source), self._path(target)):
            raise ConfigError(f"cannot move {self.root}/{source} to {target}")

    def write(self, name: str, data: bytes) -> str:
        """Write or replace a file; returns its path or URI."""
        if self._local is not None:
            place = self._local / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            return str(place)
        if self._arrow is not None:
            with self._arrow.open_output_stream(self._inner(name)) as file:
                file.write(data)
            return f"{self.root}/{name}"
        stream = self._system.create(self._path(name), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        return f"{self.root}/{name}"

    def find(self, pattern: str) -> list[tuple[str, int]]:
        """List the files that match a Hadoop glob on a remote file system: URI and size."""
        found = self._system.globStatus(self._path(pattern)) or ()
        return sorted((each.getPath().toString(), each.getLen()) for each in found if each.isFile())

    def _inner(self, name: str) -> str:
        inner = file_system(self.root)[1]
        return f"{inner}/{name}" if name else inner

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)
