"""Java, Maven, the cache and the ports: found, made once, kept; or a clear error."""

import socket
import stat
import threading
from pathlib import Path

import pytest

from groupsdk.testing import FetchError, MissingToolError
from groupsdk.testing.jars import cache_root, fetch, made_once
from groupsdk.testing.jvm import find_java, find_javac
from groupsdk.testing.ports import LOOPBACK, ReservedPorts


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _java(path: Path, version: str) -> Path:
    report = f"echo '    java.specification.version = {version}' >&2"
    return _program(path, f"{report}; echo '    java.runtime.version = {version}.0.1+2' >&2")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has no Java and no Maven, except what a test puts into `bin`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    monkeypatch.setattr("groupsdk.testing.jvm._INSTALL_PATHS", (tmp_path / "lib",))
    # /bin may be where the real ones are.
    found = {"java", "javac", "mvn"}

    def which(name: str) -> str | None:
        path = tmp_path / "bin" / name
        return str(path) if name in found and path.exists() else None

    monkeypatch.setattr("shutil.which", which)
    return tmp_path


class TestJava:
    def test_missing_java_says_how_to_install_it(self, bare: Path) -> None:
        with pytest.raises(
            MissingToolError, match=r"no Java 17 or later .*apt-get install openjdk"
        ):
            find_java()
        with pytest.raises(MissingToolError, match=r"javac.*Install a JDK"):
            find_javac()

    def test_too_old_is_named(self, bare: Path) -> None:
        old = _java(bare / "bin" / "java", "11")
        with pytest.raises(MissingToolError, match=f"found only {old} \\(Java 11\\)"):
            find_java()

    def test_java_8_and_broken_ones_are_named(self, bare: Path) -> None:
        _java(bare / "bin" / "java", "1.8")
        _program(bare / "lib" / "broken" / "bin" / "java", "exit 1")
        with pytest.raises(MissingToolError, match=r"\(Java 8\).*does not run"):
            find_java()

    def test_java_home_comes_first_then_path_then_usual_places(
        self, bare: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installed = _java(bare / "lib" / "java-21" / "bin" / "java", "21")
        assert find_java().java == installed
        on_path = _java(bare / "bin" / "java", "17")
        assert find_java().java == on_path
        home = _java(bare / "home" / "bin" / "java", "25")
        monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
        found = find_java()
        assert (found.java, found.version, found.full_version) == (home, 25, "25.0.1+2")

    def test_too_old_on_path_does_not_hide_a_newer_one(self, bare: Path) -> None:
        _java(bare / "bin" / "java", "11")
        newer = _java(bare / "lib" / "java-21" / "bin" / "java", "21")
        assert find_java().java == newer

    def test_javac_next_to_its_java(self, bare: Path) -> None:
        _java(bare / "lib" / "jdk" / "bin" / "java", "17")
        javac = _program(bare / "lib" / "jdk" / "bin" / "javac", "exit 0")
        assert find_javac() == javac


class TestJars:
    def test_missing_maven_says_how_to_install_it(self, bare: Path) -> None:
        _java(bare / "bin" / "java", "17")
        with pytest.raises(MissingToolError, match=r"no Maven .*apt-get install maven"):
            fetch(["a:b:1"], bare / "cache")

    def test_failure_shows_the_last_lines(self, bare: Path) -> None:
        _java(bare / "bin" / "java", "17")
        _program(bare / "bin" / "mvn", "echo no such artifact; exit 1")
        with pytest.raises(FetchError, match=r"(?s)could not fetch a:b:1 .*no such artifact"):
            fetch(["a:b:1"], bare / "cache")
        assert not list((bare / "cache" / "jars").glob("[!.]*[!k]"))

    def test_fetched_once_for_any_order(self, bare: Path) -> None:
        _java(bare / "bin" / "java", "17")
        script = (
            f"echo run >> {bare}/runs; "
            'for a in "$@"; do case $a in -DoutputDirectory=*) touch "${a#*=}/x.jar";; esac; done'
        )
        _program(bare / "bin" / "mvn", script)
        first = fetch(["a:b:1", "c:d:2"], bare / "cache")
        assert fetch(["c:d:2", "a:b:1"], bare / "cache") == first
        assert [jar.name for jar in first] == ["x.jar"]
        assert (bare / "runs").read_text() == "run\n"

    @pytest.mark.parametrize("wrong", ["a:b", "a:b:1:2", "a:b:[1,2)", "a:<b>:1"])
    def test_malformed_maven_coordinate_is_refused(self, wrong: str, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="not group:artifact:version"):
            fetch([wrong], tmp_path)


class TestCache:
    def test_cache_root_follows_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GROUPSDK_CACHE", "/own")
        monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
        assert cache_root() == Path("/own")
        monkeypatch.delenv("GROUPSDK_CACHE")
        assert cache_root() == Path("/xdg/groupsdk")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_root() == Path.home() / ".cache" / "groupsdk"

    def test_failed_making_leaves_nothing(self, tmp_path: Path) -> None:
        def fail(scratch: Path) -> None:
            (scratch / "half").touch()
            raise FetchError("failed")

        with pytest.raises(FetchError):
            made_once(tmp_path / "thing", fail)
        assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]

    def test_made_once_by_many(self, tmp_path: Path) -> None:
        makers: list[int] = []
        inside = threading.Event()

        def make(scratch: Path) -> None:
            makers.append(1)
            inside.wait(5)
            (scratch / "file").write_text("whole")

        found: list[str] = []

        def use() -> None:
            found.append((made_once(tmp_path / "thing", make) / "file").read_text())

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        inside.set()
        for thread in threads:
            thread.join()
        assert makers == [1]
        assert found == ["whole"] * 4


class TestPorts:
    def test_reserved_ports_are_given_to_no_one_else(self) -> None:
        with ReservedPorts(20) as mine, ReservedPorts(20) as other:
            assert len({*mine.ports, *other.ports}) == 40

    def test_one_who_asks_for_reuse_may_listen_meanwhile(self) -> None:
        with ReservedPorts(1) as mine, socket.create_server((LOOPBACK, mine.ports[0])) as server:
            assert server.getsockname()[1] == mine.ports[0]

    def test_others_may_not(self) -> None:
        with (
            ReservedPorts(1) as mine,
            socket.socket() as other,
            pytest.raises(OSError, match="in use"),
        ):
            other.bind((LOOPBACK, mine.ports[0]))
