"""One trained home for the whole session: training it takes longer than all that is asked of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from range_reader_pipeline import examination
from tests.pipeline.trained import Chain, trained_home


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the settings of whoever runs the tests out of them, and what libraries cache out of the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "OHH", "PRESET", "TRAIN_MINUTES", "RETRAIN"):
            patch.delenv(f"RANGE_READER_{name}", raising=False)
        for name in ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
            patch.setenv(name, str(tmp_path_factory.getbasetemp() / name.lower()))
        yield


@pytest.fixture(scope="session", autouse=True)
def _examinations_in_this_process() -> Iterator[None]:
    """Spare every training of the tests the start of another interpreter; tests/pipeline/test_examination.py starts one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "in_fresh_process", examination.examine)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Return a home that went through the whole chain; not to be changed, see ``Chain.copy``."""
    chain = trained_home(tmp_path_factory.mktemp("trained"))
    yield chain
    chain.instance.dispose()


@pytest.fixture
def own_copy(trained: Chain, tmp_path: Path) -> Chain:
    """Return the trained home as a copy that may be changed."""
    return trained.copy(tmp_path)
