"""An authority of the tests' own, and servers that prove with its certificates who they are."""

import subprocess
from pathlib import Path

import pytest
import trustme

from support.redis_server import server_binary

HOST = "localhost"
"""The name in the servers' certificates. The address behind it is not in them: it is no proof."""


class Authority:
    """Writes its own certificate, a server's and a client's into `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "ca.pem"
        issuer = trustme.CA()
        issuer.cert_pem.write_to_path(self.ca)
        for name, identity in (("server", HOST), ("client", "client.example")):
            issued = issuer.issue_cert(identity)
            issued.private_key_pem.write_to_path(folder / f"{name}-key.pem")
            issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")

    def server_options(self, port: int, *, clients: bool = False) -> dict[str, str]:
        """Give the settings of a server that speaks TLS on `port`; with `clients`, to those with a certificate only."""
        return {
            "tls-port": str(port),
            "tls-ca-cert-file": str(self.ca),
            "tls-cert-file": f"{self.folder}/server.pem",
            "tls-key-file": f"{self.folder}/server-key.pem",
            "tls-auth-clients": "yes" if clients else "no",
            "tls-replication": "yes",
        }

    @property
    def url_options(self) -> str:
        """Give what a URL says about TLS to a server that asks for certificates."""
        return f"ssl_ca_certs={self.ca}&ssl_certfile={self.folder}/client.pem&ssl_keyfile={self.folder}/client-key.pem"

    @property
    def client_options(self) -> dict[str, str | bool]:
        """Give the same to redis-py."""
        return {"ssl": True, **dict(each.split("=") for each in self.url_options.split("&"))}


def authority_or_skip(folder: Path) -> Authority:
    """Give an authority; skip the test, saying so, where the server at hand speaks no TLS."""
    authority = Authority(folder)
    options = as_arguments(authority.server_options(1))
    tried = subprocess.run(
        [server_binary(), "--port", "0", *options, "--bind", "256.0.0.1"], capture_output=True, text=True, check=False
    )
    if "Bad directive" in tried.stdout + tried.stderr:
        pytest.skip(f"{server_binary()} was built without TLS: nothing of it was tried")
    return authority


def as_arguments(options: dict[str, str]) -> list[str]:
    """Give settings as a server's arguments."""
    return [word for name, value in options.items() for word in (f"--{name}", value)]
