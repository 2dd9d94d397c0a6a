"""The API server's address, and our credentials.

In a pod that is two environment variables and two files, read here. Everything else that a kubeconfig can say
(client certificates, OIDC, programs that print a token) is left to the package ``kubernetes``, which is
imported only when a kubeconfig is named: it costs 18 MiB of memory, which a daemon in a pod does not need.
``~/.kube/config`` is never read: a daemon tried out on a laptop must not talk to the cluster that it names.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from numaplace.errors import InputError, PeerError
from numaplace.threads import within

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_ENV, PORT_ENV, KUBECONFIG_ENV = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"
MAX_TOKEN_BYTES = 64 * 1024
KUBECONFIG_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect to. ``base_path`` goes before every path; it has no slash at its end."""

    host: str
    port: int
    base_path: str = ""


@dataclass(frozen=True, slots=True)
class Tls:
    """What a new connection needs. ``server_name`` is the name in the certificate, if not the host."""

    context: ssl.SSLContext
    server_name: str | None = None


class Credentials(Protocol):
    """A server, and how to authenticate with it.

    What the methods return is valid now: tokens and certificates are rotated. They block (files,
    perhaps a program), and raise ``PeerError`` if there is nothing valid now.
    """

    @property
    def server(self) -> Server: ...

    def authorization(self) -> str | None:
        """Return the header's value for one request."""

    def tls(self) -> Tls | None:
        """Return what a new connection needs, ``None`` for plain HTTP."""


def find_credentials(env: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> Credentials:
    """Return the pod's credentials, else those of ``$KUBECONFIG``; ``InputError`` says what is missing."""
    host, port = env.get(HOST_ENV, ""), env.get(PORT_ENV, "")
    token = service_account / "token"
    if host and port.isdecimal() and token.exists():
        return PodCredentials(Server(host, int(port)), service_account)
    if env.get(KUBECONFIG_ENV):
        return _from_kubeconfig(env[KUBECONFIG_ENV])
    if host:
        raise InputError(f"there is no service account token at {token}")
    raise InputError(f"not in a pod ({HOST_ENV} is not set), and {KUBECONFIG_ENV} is not set")


@dataclass(frozen=True, slots=True)
class PodCredentials:
    """A pod's service account: the kubelet keeps ``token`` and ``ca.crt`` in ``directory`` up to date."""

    server: Server
    directory: Path

    def authorization(self) -> str:
        """Read the token: it lives for an hour."""
        with _failures("service account", OSError, ValueError):
            with (self.directory / "token").open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES + 1).decode("latin-1").strip()
            return _header_value(f"Bearer {token}")

    def tls(self) -> Tls:
        with _failures("service account", OSError, ValueError):
            return Tls(_context(self.directory / "ca.crt"))


@contextmanager
def _failures(whose: str, *kinds: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kinds as exc:
        raise PeerError(f"{whose}: {exc}", code="CREDENTIALS") from exc


def _header_value(text: str) -> str:
    """Return a header's value; ``ValueError`` without the text if it is not a valid header value."""
    if len(text) > MAX_TOKEN_BYTES or not (text.isascii() and text.isprintable()) or text.endswith(" "):
        raise ValueError("the token is empty, too long, or has control characters")
    return text


def _context(ca: Path | str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    # Python 3.13 requires extensions that many clusters' own authorities lack; Go's clients do not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@dataclass(frozen=True, slots=True)
class KubeconfigCredentials:
    """A kubeconfig as read by the package ``kubernetes``; ``configuration`` is its ``Configuration``."""

    server: Server
    plain: bool
    configuration: Any

    def authorization(self) -> str | None:
        """Return the package's current token: it may run a program, and raise anything."""
        with _failures("kubeconfig", Exception):
            value = self.configuration.auth_settings().get("BearerToken", {}).get("value")
            return _header_value(value) if value else None

    def tls(self) -> Tls | None:
        if self.plain:
            return None
        known = self.configuration
        with _failures("kubeconfig", Exception):
            context = _context(known.ssl_ca_cert)
            if known.cert_file:
                context.load_cert_chain(known.cert_file, known.key_file)
        if not known.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return Tls(context, known.tls_server_name or None)


def _from_kubeconfig(file: str) -> KubeconfigCredentials:
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import load_kube_config
    except ImportError as exc:
        raise InputError(
            f"{KUBECONFIG_ENV} is set, but the package kubernetes is not installed: "
            'install "numaplace[kubeconfig]"'
        ) from exc
    configuration = Configuration()
    try:
        load = partial(load_kube_config, file, client_configuration=configuration, persist_config=False)
        within(load, name="kubeconfig", timeout_seconds=KUBECONFIG_SECONDS)
    except TimeoutError as exc:
        problem = f"not read within {KUBECONFIG_SECONDS:.0f} s: a program that it names may hang"
        raise InputError(f"{KUBECONFIG_ENV}: {file}: {problem}") from exc
    except Exception as exc:
        raise InputError(f"{KUBECONFIG_ENV}: {file}: {exc}") from exc
    url = urlsplit(configuration.host)
    plain = url.scheme == "http"
    server = Server(url.hostname or "localhost", url.port or (80 if plain else 443), url.path.rstrip("/"))
    return KubeconfigCredentials(server, plain, configuration)
