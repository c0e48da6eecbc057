"""What a person can set in the launchpad for reading and encoding hand histories, with help on every field.

Every field has a default, so that one press of Materialize is enough. The folder is only ever read from: nothing set here can make
the pipeline write outside its home.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from range_reader_pipeline.shuffle import ShuffleConfig


WARN: Final = "warn"
BLOCK: Final = "block"
FAILED_FILES_VARIABLE: Final = "RANGE_READER_FAILED_FILES"
SETTLE_SECONDS: Final = 20.0  # how long the sensor leaves a file alone after its last change


class OhhFilesConfig(dg.Config):
    """Which files to look at."""

    folder: str = Field(
        default="",
        description=(
            "Folder of hand histories, subfolders included: .ohh, .jsonl, .ndjson, .json, .phh and .phhs files, each also .gz "
            "or .zst. Empty: $RANGE_READER_OHH, else ohh/ in the home. The sensor watches that default and not what is set here. "
            "A URL is given where the server is started (OHH=, RANGE_READER_OHH), and not here."
        ),
    )
    settle_seconds: float = Field(
        default=0.0,
        ge=0.0,
        description=(
            "Leave out files that changed within so many seconds, since somebody may still be writing them; 0 takes all. Those of "
            "an object store are all taken, since it shows none before it is whole."
        ),
    )


class EncodedShardsConfig(dg.Config):
    """How to encode and shuffle."""

    workers: int = Field(
        default=0,
        ge=0,
        description=(
            "Processes that parse and encode; 0: one per core, or none extra where there is little to do. The bytes do not depend "
            "on it."
        ),
    )
    reads_per_shard: int = Field(
        default=131_072,
        ge=1_024,
        description=(
            "A shard holds at most about so many reads; there are a power of two of them per split. A read is one (villain, "
            "perspective) pair of one hand, about 110 bytes on disk."
        ),
    )
    labels: Literal["all", "dealt"] = Field(
        default="all",
        description=(
            "Whose cards are targets. all: every villain whose cards are known. dealt: only those whom the record deals "
            "their cards, not those known only because they were shown, which is a biased sample: mostly good hands are shown."
        ),
    )
    shuffle_seed: int = Field(
        default=0, ge=0, lt=2**63, description="Another seed puts the reads in another order. Which split a hand is in stays."
    )


class DataChecksConfig(dg.Config):
    """What stops the chain before the training."""

    failed_files: Literal["auto", "warn", "block"] = Field(
        default="auto",
        description=(
            "What a file does that cannot be read as hand histories. auto: $RANGE_READER_FAILED_FILES, else block. block: nothing "
            "behind encoded_shards runs until the file is mended or gone. warn: the hands of the other files are trained on. Files "
            "of other games alone always only warn."
        ),
    )


def failed_files(config: DataChecksConfig, *, environment: Mapping[str, str] = os.environ) -> str:
    """Return what a failed file does, ``WARN`` or ``BLOCK``.

    Raises:
        ValueError: the environment names something else.
    """
    asked = config.failed_files if config.failed_files != "auto" else environment.get(FAILED_FILES_VARIABLE) or BLOCK
    if asked not in (WARN, BLOCK):
        msg = f"expected failed_files ({FAILED_FILES_VARIABLE}) {WARN} or {BLOCK}, got {asked!r}"
        raise ValueError(msg)
    return asked


def shuffle_config(config: EncodedShardsConfig) -> "ShuffleConfig":
    """Return what decides where a read lies."""
    from range_reader_pipeline.shuffle import ShuffleConfig

    return ShuffleConfig(seed=config.shuffle_seed, reads_per_shard=config.reads_per_shard, labels=config.labels)
