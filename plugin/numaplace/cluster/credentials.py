"""Where the API server is, and as whom we call it.

In a pod that is two environment variables and two files, read here. Everything else that a kubeconfig can say
(client certificates, OIDC, programs that print a token) is left to the package ``kubernetes``, which is
imported only when a kubeconfig is named: it costs 18 MiB of memory, which a daemon in a pod does not pay.
``~/.kube/config`` is never read: a daemon tried out on a laptop must not talk to whatever cluster that names.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from numaplace.errors import InputError, PeerError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_ENV, PORT_ENV, KUBECONFIG_ENV = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect to. ``base_path`` goes before every path; it has no slash at its end."""

    host: str
    port: int
    base_path: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """What one connection needs. ``tls`` is ``None`` for plain HTTP; ``authorization`` is a header's value.

    ``server_name`` is the name that the server's certificate has to bear, if it is not the host.
    """

    tls: ssl.SSLContext | None
    authorization: str | None
    server_name: str | None = None


class Credentials(Protocol):
    """As whom to call which server."""

    @property
    def server(self) -> Server:
        """The API server."""

    def access(self) -> Access:
        """Return what is valid now: tokens and certificates are replaced under way.

        Blocks (files, perhaps a program). ``PeerError`` if there is nothing valid now.
        """


def find_credentials(env: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> Credentials:
    """Return the pod's own credentials, else those of ``$KUBECONFIG``; ``InputError`` says what lacks."""
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

    def access(self) -> Access:
        """Read both files: a token lives for an hour, a connection for some minutes."""
        try:
            token = (self.directory / "token").read_text().strip()
            tls = _context(self.directory / "ca.crt")
        except OSError as exc:
            raise PeerError(f"service account: {exc}", code="CREDENTIALS") from exc
        return Access(tls=tls, authorization=f"Bearer {token}")


def _context(ca: Path | str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    # Python 3.13 asks for extensions that many clusters' own authorities lack; Go's clients do not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@dataclass(frozen=True, slots=True)
class KubeconfigCredentials:
    """What the package ``kubernetes`` made of a kubeconfig; ``configuration`` is its ``Configuration``."""

    server: Server
    plain: bool
    configuration: Any

    def access(self) -> Access:
        """Ask the package for the present token: it may run a program for it."""
        known = self.configuration
        try:
            bearer = known.auth_settings().get("BearerToken", {}).get("value")
            tls = None if self.plain else _context(known.ssl_ca_cert)
            if tls is not None and known.cert_file:
                tls.load_cert_chain(known.cert_file, known.key_file)
        except Exception as exc:
            # The package has no common exception for what programs and providers may do.
            raise PeerError(f"kubeconfig: {exc}", code="CREDENTIALS") from exc
        if tls is not None and not known.verify_ssl:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        return Access(tls, bearer, known.tls_server_name or None)


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
        load_kube_config(file, client_configuration=configuration, persist_config=False)
    except Exception as exc:
        raise InputError(f"{KUBECONFIG_ENV}: {file}: {exc}") from exc
    url = urlsplit(configuration.host)
    plain = url.scheme == "http"
    server = Server(url.hostname or "localhost", url.port or (80 if plain else 443), url.path.rstrip("/"))
    return KubeconfigCredentials(server, plain, configuration)
