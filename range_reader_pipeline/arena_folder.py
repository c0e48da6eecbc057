"""The arena's hands on disk: dealt file by file, known by a manifest, and looked up by the oracle.

Files hold ``HANDS_PER_FILE`` hands, each a function of the settings, the seed and its number, so memory does not grow with the
deal, and a larger deal begins with the same whole files. Beside them, outside the folder of hand histories, lie the manifest
(settings, style texts, statistics, hashes) and the roster: who sat where in which hand. The roster is for the oracle alone;
nothing of it, and no player's name, is ever encoded.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from range_reader_core.wording import counted
from range_reader_pipeline.arena_config import ArenaConfig, chosen_styles, style_texts, table_settings
from range_reader_pipeline.arena_writer import WRITER_VERSION
from range_reader_pipeline.locks import held
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.provenance import file_sha256
from range_reader_pipeline.storage import read_json, write_json, written_aside

if TYPE_CHECKING:
    import numpy as np

    from range_reader_core.arena.deal import PlayedHands, TableSettings
    from range_reader_core.arena.policy import Policy

ARENA_VERSION: Final = f"1.{WRITER_VERSION}"  # raise it when the same settings would deal other hands
HANDS_PER_FILE: Final = 5_000
SAY_EVERY_S: Final = 5.0  # a large deal is thousands of files
SUFFIX: Final = ".ohh.zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """What is to be dealt."""

    num_hands: int
    seed: int
    settings: "TableSettings"
    policy: "Policy"
    shares: tuple[float, ...]  # of each style
    texts: dict[str, str]  # of each style's file

    @property
    def series(self) -> str:
        """What a file's bytes depend on beside its number, as 16 hex digits. Hands of another series have other ids."""
        parts = [ARENA_VERSION, self.seed, asdict(self.settings), self.shares, self.texts]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def identity(self) -> str:
        """What all bytes depend on, as 16 hex digits."""
        return hashlib.sha256(f"{self.series} {self.num_hands}".encode()).hexdigest()[:16]


@contextmanager
def dealing(paths: HomePaths, log: Callable[[str], None]) -> Iterator[None]:
    """Be the only one that deals into a home or takes its deal away, waiting for as long as another run does."""
    with held(paths.deal_lock, "another run deals hands into this home: waiting for it", log):
        yield


def planned(config: ArenaConfig, paths: HomePaths) -> Deal:
    """Return what a configuration deals.

    Raises:
        ValueError: a setting or a style file that cannot be used.
    """
    from range_reader_core.arena.policy import Policy
    from range_reader_core.arena.styles import StyleBook

    texts = style_texts(paths.arena_styles)
    chosen = chosen_styles(config.styles, texts)
    return Deal(
        num_hands=config.hands,
        seed=config.seed,
        settings=table_settings(config),
        policy=Policy(StyleBook(tuple(style for style, _ in chosen.values()))),
        shares=tuple(share for _, share in chosen.values()),
        texts={name: texts[name] for name in chosen},
    )


def deal_files(deal: Deal, paths: HomePaths, log: Callable[[str], None]) -> dict[str, Any]:
    """Deal all hands, replace what was dealt before, and return the manifest.

    Raises:
        OSError: the home cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from range_reader_pipeline.arena_statistics import Statistics

    names = deal.policy.book.names
    statistics = Statistics(names)
    files: list[dict[str, Any]] = []
    said_s = time.monotonic()
    paths.arena_manifest.unlink(missing_ok=True)
    schema = pa.schema([("hand_id", pa.string()), ("styles", pa.list_(pa.uint8()))])
    with written_aside(paths.arena_roster) as aside, pq.ParquetWriter(aside, schema) as roster:
        for number, first in enumerate(range(0, deal.num_hands, HANDS_PER_FILE)):
            count = min(HANDS_PER_FILE, deal.num_hands - first)
            hands, styles, ids, text = _one_file(deal, number, count)
            path = paths.arena_hands / f"arena_{number:05d}{SUFFIX}"
            with written_aside(path) as written:
                written.write_bytes(pa.compress(text, codec="zstd", asbytes=True))
            seats = [row[:size] for row, size in zip(styles.tolist(), hands.seating.num_players.tolist(), strict=True)]
            roster.write_table(pa.table({"hand_id": ids, "styles": seats}, schema=schema))
            statistics.add(hands, styles)
            files.append({"name": path.name, "sha256": file_sha256(path), "num_hands": count})
            num_dealt = first + count
            if num_dealt == deal.num_hands or time.monotonic() - said_s >= SAY_EVERY_S:
                log(f"{num_dealt:,} of {counted(deal.num_hands, 'hand')} dealt")
                said_s = time.monotonic()
    kept = {file["name"] for file in files}
    for path in own_files(paths):
        if path.name not in kept:
            path.unlink()
    manifest = {
        "identity": deal.identity,
        "version": ARENA_VERSION,
        "num_hands": deal.num_hands,
        "seed": deal.seed,
        "settings": asdict(deal.settings),
        "styles": [
            {"name": name, "share": share, "text": deal.texts[name]} for name, share in zip(names, deal.shares, strict=True)
        ],
        "files": files,
        "statistics": statistics.summary(),
    }
    write_json(paths.arena_manifest, manifest)
    return manifest


def _one_file(deal: Deal, number: int, num_hands: int) -> "tuple[PlayedHands, np.ndarray, list[str], bytes]":
    """Return a file's hands, everybody's styles (T, 10), the hands' ids and the text."""
    import numpy as np

    from range_reader_core.arena.deal import deal_cards, play_hands, seat_players
    from range_reader_core.arena.players import StylePlayers
    from range_reader_pipeline.arena_writer import game_numbers, hand_id, hand_lines

    generator = np.random.default_rng([deal.seed, number])
    numbers = game_numbers(num_hands, np.random.default_rng([int(deal.series, 16), number]))
    seating, dealt = seat_players(deal.settings, num_hands, generator), deal_cards(num_hands, generator)
    styles = generator.choice(len(deal.shares), dealt.combos.shape, p=deal.shares)
    hands = play_hands(deal.settings, seating, dealt, StylePlayers(deal.policy, styles, dealt, generator))
    names = deal.policy.book.names
    players = [[f"{names[style]}-{seat}" for seat, style in enumerate(row)] for row in styles.tolist()]
    lines = hand_lines(hands, player_names=players, numbers=numbers, first_index=number * HANDS_PER_FILE)
    return hands, styles, [hand_id(game) for game in numbers], "".join(lines).encode()


def dealt_before(paths: HomePaths, identity: str) -> dict[str, Any] | None:
    """Return the manifest of a deal that lies there whole, None where it does not."""
    manifest = read_json(paths.arena_manifest)
    if not isinstance(manifest, dict) or manifest.get("identity") != identity or not paths.arena_roster.is_file():
        return None
    for file in manifest["files"]:
        path = paths.arena_hands / file["name"]
        if not path.is_file() or file_sha256(path) != file["sha256"]:
            return None
    return manifest


def own_files(paths: HomePaths) -> list[Path]:
    """Return the files that the arena has dealt, by its names for them."""
    return sorted(paths.arena_hands.glob(f"arena_*{SUFFIX}"))


def foreign_files(paths: HomePaths) -> Sequence[str]:
    """Return the names of the hand histories in the home's folder that the arena has not dealt."""
    from range_reader_pipeline.catalogue import list_folder

    if not paths.ohh.is_dir():
        return []
    own = {path.relative_to(paths.ohh).as_posix() for path in own_files(paths)}
    return [entry.name for entry in list_folder(paths.ohh, skip=None).entries if entry.name not in own]


def will_deal(paths: HomePaths) -> bool:
    """Return whether a run with the default settings deals: nobody has put hands of their own there, or pointed elsewhere."""
    return paths.is_default_ohh and not foreign_files(paths)


def withdraw(paths: HomePaths) -> int:
    """Remove what the arena has dealt and return how many files that were."""
    files = own_files(paths)
    paths.arena_manifest.unlink(missing_ok=True)
    for path in files:
        path.unlink()
    paths.arena_roster.unlink(missing_ok=True)
    return len(files)
