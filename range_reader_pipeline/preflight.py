"""What can be known to be wrong before a run begins, so that nobody waits for an hour of encoding to be told of a typing error.

Nothing is written: a home is not made for a run that cannot start.
"""

import os
from collections.abc import Mapping

from range_reader_pipeline.config import INIT_FROM_VARIABLE, KEPT, TrainingConfig, core_train_config, init_from
from range_reader_pipeline.data_config import DataChecksConfig, failed_files
from range_reader_pipeline.object_store import check_url
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.retraining import policy_of
from range_reader_pipeline.storage import link_target


def check_folders(paths: HomePaths) -> None:
    """Make sure that the home can be made and the hand histories looked for.

    Raises:
        ValueError: a file is where a folder should be, or hand histories are said to lie where nothing is, or at a URL that cannot
            be read here.
    """
    for folder in (paths.root, *paths.root.parents):
        if folder.exists():
            if not folder.is_dir():
                msg = f"{folder} is no folder; point HOME_DIR=<folder> (or RANGE_READER_HOME, or --home) at one"
                raise ValueError(msg)
            break
    if paths.ohh_url:
        check_url(paths.ohh_url)
        return
    if paths.is_default_ohh or paths.ohh.is_dir():
        return
    if paths.ohh.exists():
        msg = f"{paths.ohh} is a file; OHH=<folder> (or RANGE_READER_OHH, or --ohh) takes a folder, such as the one that it lies in"
        raise ValueError(msg)
    msg = f"there is no folder {paths.ohh}: point OHH=<folder> (or RANGE_READER_OHH, or --ohh) at your hand histories"
    raise ValueError(msg)


def check_knobs(paths: HomePaths, training: TrainingConfig, *, has_gpu: bool, environment: Mapping[str, str] = os.environ) -> None:
    """Make sure that everything set for a run can be used.

    Args:
        paths: the home.
        training: what a person set.
        has_gpu: whether the device trained on is a GPU.
        environment: where the knobs of ``make run`` are looked up.

    Raises:
        ValueError: one of them cannot; says which.
    """
    core_train_config(training, has_gpu=has_gpu, environment=environment)
    failed_files(DataChecksConfig(), environment=environment)
    policy_of(environment)
    if init_from(training, environment=environment) == KEPT and link_target(paths.checkpoint) is None:
        msg = (
            f"INIT_FROM=kept ({INIT_FROM_VARIABLE}), but nothing is kept in {paths.root} yet: train with INIT_FROM=scratch "
            "first, or set it to kept_or_scratch"
        )
        raise ValueError(msg)
