"""RANGE_READER_HOME and what lies under it: the one place that knows where a file of the pipeline is kept.

Two environment variables are read, when they are needed and never at import: ``RANGE_READER_HOME`` (everything that is written
lies below it) and ``RANGE_READER_OHH`` (the folder of hand histories, only ever read, or its URL in an object store, of which the
home holds a copy). Paths are absolute, because a run's working directory is the server's. Nothing here reads or removes data.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "RANGE_READER_HOME"
OHH_VARIABLE: Final = "RANGE_READER_OHH"
DEFAULT_HOME: Final = "range_reader_home"

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class HomePaths:
    """Everything below one home folder. Build it with ``home_paths``."""

    root: Path  # RANGE_READER_HOME, absolute
    ohh: Path  # the folder of hand histories, absolute; under the root unless told otherwise
    ohh_url: str = ""  # where an object store has them; ``ohh`` is then the local copy, see ``mirror.py``

    @property
    def arena(self) -> Path:
        """Folder of what is known about the hands that the arena dealt."""
        return self.root / "arena"

    @property
    def arena_hands(self) -> Path:
        """Where the arena puts its hands, among the hand histories."""
        return self.root / "ohh" / "arena"

    @property
    def arena_manifest(self) -> Path:
        """How the arena's hands were dealt."""
        return self.arena / "manifest.json"

    @property
    def arena_roster(self) -> Path:
        """Which style sat where in which hand; for the oracle alone."""
        return self.arena / "roster.parquet"

    @property
    def arena_styles(self) -> Path:
        """A person's own style files."""
        return self.arena / "styles"

    @property
    def catalogue(self) -> Path:
        """Folder of what is known about the input files."""
        return self.root / "catalogue"

    @property
    def ohh_files(self) -> Path:
        """The catalogue of input files: one row a file."""
        return self.catalogue / "ohh_files.parquet"

    @property
    def catalogue_manifest(self) -> Path:
        """What the catalogue was made from."""
        return self.catalogue / "manifest.json"

    @property
    def rejects(self) -> Path:
        """Every hand that was refused, with its reason."""
        return self.catalogue / "rejects.parquet"

    @property
    def hash_memo(self) -> Path:
        """Content hashes by name, size and times, so that unchanged files are not read again."""
        return self.catalogue / "hash_memo.json"

    @property
    def reads_cache(self) -> Path:
        """Encoded reads of single files, by content."""
        return self.root / "cache" / "reads"

    @property
    def trackers(self) -> Path:
        """Counts behind the tracker baselines, by data version."""
        return self.root / "cache" / "trackers"

    @property
    def scratch(self) -> Path:
        """Spill files of a running shuffle; empty between runs."""
        return self.root / "cache" / "scratch"

    @property
    def data(self) -> Path:
        """Link to the published shards."""
        return self.root / "data"

    @property
    def data_manifest(self) -> Path:
        """What the published shards were made from."""
        return self.data / "manifest.json"

    @property
    def data_versions(self) -> Path:
        """The folders of shards, one a version, that ``data`` may point to."""
        return self.root / "data_versions"

    @property
    def mirror(self) -> Path:
        """Folder of the local copy of the hand histories at a URL, and of what is known about it; one a URL."""
        return _mirror(self.root, self.ohh_url)

    @property
    def mirror_index(self) -> Path:
        """Which objects the local copy was made from."""
        return self.mirror / "index.json"

    @property
    def mirror_lock(self) -> Path:
        """Held by the one run that fetches."""
        return self.mirror / "mirror.lock"

    @property
    def ingest_lock(self) -> Path:
        """Held by the one run that encodes and publishes."""
        return self.root / "cache" / "ingest.lock"

    @property
    def deal_lock(self) -> Path:
        """Held by the one run that deals the arena's hands, or takes them away."""
        return self.root / "cache" / "deal.lock"

    @property
    def runs(self) -> Path:
        """Training runs, one folder an identity."""
        return self.root / "runs"

    @property
    def checkpoint(self) -> Path:
        """Link to the folder of the kept checkpoint."""
        return self.root / "checkpoint"

    @property
    def reports(self) -> Path:
        """Folder of evaluation reports."""
        return self.root / "reports"

    @property
    def results(self) -> Path:
        """The experiment log, append-only."""
        return self.root / "results.tsv"

    def create(self) -> None:
        """Create the home and its default input folder. A folder of somebody else's is never created."""
        folders = [self.catalogue, self.reads_cache, self.data_versions, self.runs, self.reports]
        if self.is_default_ohh:
            folders.append(self.ohh)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")  # hands and weights do not belong into the repository around the home

    @property
    def is_default_ohh(self) -> bool:
        """Whether hand histories are looked for in the home itself."""
        return self.ohh == self.root / "ohh"

    @property
    def ohh_source(self) -> str:
        """Where hand histories come from, as a person names it: a folder or a URL."""
        return self.ohh_url or str(self.ohh)


def home_paths(*, home: str | None = None, ohh: str | None = None, environment: Mapping[str, str] | None = None) -> HomePaths:
    """Return the paths of a home: an argument wins over the environment, which wins over the defaults.

    Args:
        home: the home folder, ``./range_reader_home`` by default.
        ohh: the folder of hand histories or its URL, ``<home>/ohh`` by default.
        environment: what to look variables up in, the process's own by default. Empty values count as unset.
    """
    variables = os.environ if environment is None else environment
    root = _absolute(home or variables.get(HOME_VARIABLE) or DEFAULT_HOME)
    folder = ohh or variables.get(OHH_VARIABLE)
    if folder and is_url(folder):
        scheme, _, rest = folder.partition("://")
        url = f"{scheme.lower()}://{rest.rstrip('/')}"
        return HomePaths(root=root, ohh=_mirror(root, url) / "hands", ohh_url=url)
    return HomePaths(root=root, ohh=_absolute(folder) if folder else root / "ohh")


def is_url(folder: str) -> bool:
    """Tell whether what a person gave for a folder is a URL."""
    return _URL.match(folder) is not None


def _mirror(root: Path, url: str) -> Path:
    return root / "cache" / "ohh_mirror" / hashlib.sha256(url.encode()).hexdigest()[:16]


def _absolute(folder: str) -> Path:
    # Not resolve(): a home that is itself a link keeps the name its owner gave it.
    return Path(os.path.abspath(Path(folder).expanduser()))  # noqa: PTH100 - Path.absolute keeps "..", which breaks comparisons
