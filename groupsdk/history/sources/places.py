"""Find the file system of a path or URI."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyarrow import fs

from groupsdk.errors import ConfigError


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system that a path or URI is on, and what the path is called there.

    Raises:
        ConfigError: the URI is of no file system that is known here.
    """
    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).expanduser().resolve())
    try:
        system, inner = fs.FileSystem.from_uri(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"no file system is known for {path}: {error}") from error
    return system, inner


def made_empty(path: str, folders: Sequence[str]) -> str | None:
    """Empty some folders of a directory into which tasks are to write, and make them where they are missing.

    Returns:
        The directory, as every worker understands it; None where it is on a file system that pyarrow does
        not know, though Spark may ("s3a://", "abfss://"): nothing is done then.
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
    return path if "://" in path else inner
