"""One API server for all tests here; its tools come out of the rehearsal's cache, or are got ready first."""

from collections.abc import Iterator

import pytest

from rehearsal.tools.everything import get_tools
from rehearsal.tools.progress import ConsoleProgress
from tests.differential.api_server import ApiServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(get_tools(ConsoleProgress()), tmp_path_factory.mktemp("api-server")) as server:
        yield server
