"""Front ends behind one proxy: their files at a folder, livejoin at `livejoin/` below it."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from livejoin.tables.http.server import Access
from rig.folder_proxy import FolderProxy, folder_proxy, static_server
from tables.live_server import insecure_access


class Portal:
    """A proxy with a front end's files; livejoin joins it by `serve`."""

    def __init__(self, proxy: FolderProxy, folder: str) -> None:
        self._proxy = proxy
        self._folder = folder
        self.url = f"{proxy.origin}{folder}"

    def access(self, given: Access | None = None) -> Access:
        """Access control that knows the proxy's address, as `http.hosts` does."""
        return replace(given or insecure_access(), hosts=(f"127.0.0.1:{self._proxy.port}",))

    def serve(self, port: int) -> None:
        """Serve livejoin, which listens on this port."""
        self._proxy.folders[f"{self._folder}livejoin/"] = port


@contextlib.contextmanager
def portal(files: Path, folder: str) -> Iterator[Portal]:
    """Serve files below a folder such as `/` or `/tools/`."""
    with folder_proxy() as proxy, static_server(files) as port:
        proxy.folders[folder] = port
        yield Portal(proxy, folder)
