"""The asset that turns single switches of the default and shows what each is worth."""

from collections.abc import Iterator
from typing import Final

import dagster as dg

from range_reader_pipeline.assets.experiment_result import experiment_asset, experiment_result, is_left_out
from range_reader_pipeline.experiment_config import AblationsConfig, switched
from range_reader_pipeline.resources import HomeResource

NAME: Final = "ablations"
CODE_VERSION: Final = "1"
BASE: Final = "default"


@experiment_asset(
    name=NAME,
    code_version=CODE_VERSION,
    description=(
        "An experiment: what is each switch of the default recipe worth? The preset (**default**) against the same with one switch "
        "turned, equal wall-clock time, several seeds each; the launchpad chooses arms, seeds and minutes.\n\n"
        "Judged by the nats gained over the static range on the val hands, with 95% intervals that hold the spread of hands and of "
        "seeds: an arm is kept only if its lead over the default is beyond the interval. Hours by default; it goes on where it was "
        "stopped, and an arm on record is not trained again. Left out when the whole graph is materialized: launch it by itself."
    ),
)
def ablations(
    context: dg.AssetExecutionContext, config: AblationsConfig, home: HomeResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Train all arms and compare."""
    if is_left_out(context):
        return
    from range_reader_core.inference import choose_device
    from range_reader_core.presets import preset

    name = config.preset if config.preset != "auto" else ("base" if choose_device(config.device).type == "cuda" else "cpu")
    default = preset(name)
    arms = {BASE: default, **{arm: switched(default, arm) for arm in config.arms if arm != BASE}}
    yield experiment_result(context, home.paths(), NAME, name, arms, config)
