"""Java programs are compiled, answer line by line, and tell why they failed."""

from pathlib import Path

import pytest

from groupsdk.testing.jvm import find_java
from tests.support import java
from tests.support.java import JavaError, JavaProgram


pytestmark = pytest.mark.kafka
_JAVA = Path(__file__).parent / "java"
_CLIENTS = "org.apache.kafka:kafka-clients:4.1.0"


pytestmark = pytest.mark.usefixtures("_java")


def test_program_answers_line_by_line() -> None:
    with JavaProgram(_JAVA / "Echo.java", arguments=["a", "b"]) as echo:
        assert echo.receive() == "ready a b"
        assert echo.ask("one") == "ONE"
        assert echo.ask("zwölf") == "ZWÖLF"
        echo.end_input()
        assert echo.wait() == 0


def test_program_is_ended_on_exit() -> None:
    with JavaProgram(_JAVA / "Echo.java") as echo:
        echo.receive()
        process = echo._running()
    assert process.returncode == -9


def test_failure_shows_what_the_program_wrote() -> None:
    with JavaProgram(_JAVA / "Echo.java") as echo:
        echo.receive()
        with pytest.raises(JavaError, match=r"(?s)ended with status 1.*asked to fail"):
            echo.ask("fail")
        with pytest.raises(JavaError, match="ended"):
            echo.receive()


def test_silence_is_an_error() -> None:
    with JavaProgram(_JAVA / "Echo.java") as echo:
        echo.receive()
        with pytest.raises(JavaError, match="wrote no line within 50 ms"):
            echo.ask("silence", timeout_ms=50)


def test_program_runs_against_fetched_jars() -> None:
    assert java.run(_JAVA / "Version.java", [_CLIENTS]).strip() == "4.1.0"


def test_compiler_error_is_shown(tmp_path: Path) -> None:
    source = tmp_path / "Broken.java"
    source.write_text("public class Broken { int x = nothing; }")
    with pytest.raises(JavaError, match=r"(?s)does not compile.*nothing"):
        java.run(source)


def test_java_source_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPSDK_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "Quiet.java"
    source.write_text("public class Quiet { public static void main(String[] a) {} }")
    first = java.compiled(source, [])
    before = (first / "Quiet.class").stat().st_mtime_ns
    assert java.compiled(source, []) == first
    assert (first / "Quiet.class").stat().st_mtime_ns == before
    source.write_text("public class Quiet { public static void main(String[] a) { a = null; } }")
    assert java.compiled(source, []) != first


def test_java_found_says_its_version() -> None:
    jvm = find_java()
    assert jvm.version >= 17
    assert jvm.full_version.startswith(str(jvm.version))
