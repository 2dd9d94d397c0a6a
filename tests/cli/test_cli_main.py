from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from numaplace import __version__
from numaplace.cli.console import Console
from numaplace.cli.main import COMMANDS, Command, main

FAILING = {"fail": Command("failing_command", "fails")}
CASE = Path(__file__).parent.parent / "cases" / "cli" / "two-nodes"


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        ("input", 2, "numaplace: --file x: is not there\n"),
        ("config", 2, "numaplace: the configuration is refused (2 to fix):\nc.yaml:1: a\nc.yaml:2: b\n"),
        ("peer", 1, "numaplace: the kubelet does not answer\n"),
        ("interrupt", 130, ""),
    ],
)
def test_errors_become_exit_codes_and_messages(failure, code, message):
    console = Console(out=io.StringIO(), err=io.StringIO(), env={})
    assert main(["fail", failure], console, commands=FAILING) == code
    assert console.err.getvalue() == message
    assert console.out.getvalue() == ""


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        main(["fail", "bug"], Console(out=io.StringIO(), err=io.StringIO(), env={}), commands=FAILING)


def test_version(run, capsys):
    assert run("--version").code == 0
    assert capsys.readouterr().out == f"numaplace {__version__}\n"


def test_help_names_every_command(run, capsys):
    assert run("--help").code == 0
    page = capsys.readouterr().out
    assert [name for name in COMMANDS if f"  {name} " not in page] == []


@pytest.mark.parametrize(
    "argv", [[name] for name in COMMANDS if name != "config"] + [["config", "check"]], ids=" ".join
)
def test_the_help_of_every_command_has_an_example(argv, run, capsys):
    assert run(*argv, "--help").code == 0
    assert f"example: numaplace {' '.join(argv)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["inspcet"],
        ["inspect", "--sokcet", "x"],
        ["inspect", "-o", "yaml"],
        ["config"],
        ["config", "check"],
        ["run", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage(argv, run, capsys):
    assert run(*argv).code == 2
    assert "usage: numaplace" in capsys.readouterr().err


def test_the_command_page_documents_every_command():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if f"## `numaplace {name}" not in page] == []


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["inspect", "--socket", f"fake:{CASE}", "-o", "json"], 141), (["run", "--help"], 0)],
    ids=["data", "help"],
)
def test_a_reader_that_goes_away_is_not_complained_about(argv, code):
    process = subprocess.Popen(
        [sys.executable, "-m", "numaplace", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=30) == code


@pytest.mark.parametrize(
    "argv", [["--version"], ["run", "--help"], ["config", "check", "/nowhere"]], ids=" ".join
)
def test_commands_do_not_load_what_they_do_not_need(argv):
    script = (
        "import sys; from numaplace.cli.main import main; main(sys.argv[1:]);"
        "print('loaded:', *{'grpc', 'prometheus_client', 'numaplace.simulate'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script, *argv], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
