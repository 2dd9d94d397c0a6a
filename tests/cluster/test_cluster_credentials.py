from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from numaplace.cluster.client import ApiClient
from numaplace.cluster.credentials import find_credentials
from numaplace.errors import InputError, PeerError

IN_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def test_outside_a_cluster_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even those of ~/.kube/config: a daemon on a laptop must not write Events to a real cluster."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(kubeconfig("http://prod:1"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="not in a pod"):
        find_credentials({}, service_account=tmp_path)


def test_a_pod_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no service account token"):
        find_credentials(IN_POD, service_account=tmp_path)


def kubeconfig(server: str, **user: Any) -> str:
    return yaml.safe_dump(
        {
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
        }
    )


def test_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig("http://127.0.0.1:8001/base/", token="abc"))
    found = find_credentials({"KUBECONFIG": str(file)}, service_account=tmp_path)
    server = found.server
    assert (server.host, server.port, server.base_path) == ("127.0.0.1", 8001, "/base")
    assert found.authorization() == "Bearer abc"
    assert found.tls() is None


def test_a_program_that_hangs_holds_up_the_start_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaplace.cluster.credentials.KUBECONFIG_SECONDS", 0.1)
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["20"]}
    file = tmp_path / "config"
    file.write_text(kubeconfig("http://127.0.0.1:1", exec=program))
    with pytest.raises(InputError, match="not read within"):
        find_credentials({"KUBECONFIG": str(file)}, service_account=tmp_path)


@pytest.mark.parametrize("text", ["", "a: [", "kind: Config"])
def test_a_bad_kubeconfig_is_the_users_to_fix(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InputError, match="KUBECONFIG"):
        find_credentials({"KUBECONFIG": str(file)}, service_account=tmp_path)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A service account whose authority has signed the server's own certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl for a certificate")
    arguments = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=kubernetes "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key -out ca.crt"
    )
    subprocess.run([openssl, *arguments.split()], check=True, capture_output=True, cwd=tmp_path)
    (tmp_path / "token").write_text("one\n")
    return tmp_path


async def test_in_a_pod_the_present_token_is_sent_over_tls(account: Path) -> None:
    seen: list[bytes] = []
    connections: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(account / "ca.crt", account / "key")
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        env = {**IN_POD, "KUBERNETES_SERVICE_PORT": str(port)}
        client = ApiClient(find_credentials(env, service_account=account), user_agent="t")
        assert await client.request("GET", "/x") == b"{}"
        (account / "token").write_text("two\n")
        assert await client.request("GET", "/x") == b"{}"
        other = ApiClient(
            find_credentials({**env, "KUBERNETES_SERVICE_HOST": "localhost"}, service_account=account),
            user_agent="t",
        )
        with pytest.raises(PeerError, match=r"(?i)certificate|hostname"):
            await other.request("GET", "/x")
        client.close()
    assert [b"Authorization: Bearer one" in seen[0], b"Authorization: Bearer two" in seen[1]] == [True, True]
    assert len(connections) == 1


async def test_a_token_that_cannot_be_read_is_survived(account: Path) -> None:
    found = find_credentials(IN_POD, service_account=account)
    (account / "ca.crt").unlink()
    with pytest.raises(PeerError, match="service account"):
        await ApiClient(found, user_agent="t").request("GET", "/x")


@pytest.mark.parametrize(
    "token", [b"one\r\nX-Other: two", b"one\ntwo\n", b"\n", b"\xff", b"one\0", b"x" * 100_000]
)
async def test_a_token_that_cannot_be_a_header_is_not_sent(account: Path, token: bytes) -> None:
    (account / "token").write_bytes(token)
    found = find_credentials(IN_POD, service_account=account)
    with pytest.raises(PeerError, match="the token is") as caught:
        await ApiClient(found, user_agent="t").request("GET", "/x")
    assert caught.value.code == "CREDENTIALS"
    assert "two" not in str(caught.value)


async def test_a_kubeconfigs_token_that_cannot_be_a_header_is_not_sent(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig("http://127.0.0.1:1", token="one\r\nX-Other: two"))
    found = find_credentials({"KUBECONFIG": str(file)}, service_account=tmp_path)
    with pytest.raises(PeerError, match="the token is") as caught:
        await ApiClient(found, user_agent="t").request("GET", "/x")
    assert caught.value.code == "CREDENTIALS"


def test_in_a_pod_the_package_kubernetes_is_not_imported(tmp_path: Path) -> None:
    """It would cost a third of the daemon's memory, and is not in the image."""
    (tmp_path / "token").write_text("t")
    code = (
        "import sys; from pathlib import Path;"
        "import numaplace.daemon.cluster.part, numaplace.cluster.credentials as c;"
        f"c.find_credentials({IN_POD!r}, service_account=Path({str(tmp_path)!r}));"
        "print({'kubernetes', 'pydantic', 'requests'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
