"""The asset that compares no positional encoding with rotary encoding, by the reference recipe, at equal time."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import dagster as dg

from range_reader_pipeline.assets.experiment_result import experiment_asset, experiment_result, is_left_out
from range_reader_pipeline.experiment_config import PositionalEncodingConfig
from range_reader_pipeline.resources import HomeResource

NAME: Final = "positional_encoding_ab"
CODE_VERSION: Final = "1"


@experiment_asset(
    name=NAME,
    code_version=CODE_VERSION,
    description=(
        "An experiment: must the reader be told where in the hand an action stands? The reference recipe without positional "
        "encoding (**nope**) against the same with rotary encoding (**rope**), equal wall-clock time, three seeds each.\n\n"
        "Judged by the nats gained over the static range on the val hands, with 95% intervals that hold the spread of hands and of "
        "seeds: an arm is kept only if its lead is beyond the interval. An hour by default; it goes on where it was stopped. "
        "It is left out when the whole graph is materialized: launch it by itself."
    ),
)
def positional_encoding_ab(
    context: dg.AssetExecutionContext, config: PositionalEncodingConfig, home: HomeResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Train both arms and compare."""
    if is_left_out(context):
        return
    from range_reader_core.inference import choose_device
    from range_reader_core.presets import preset

    has_gpu = choose_device(config.device).type == "cuda"
    name = config.preset if config.preset != "auto" else ("reference" if has_gpu else "reference_cpu")
    nope = preset(name)
    nope = replace(nope, model=replace(nope.model, rope=False))
    arms = {"nope": nope, "rope": replace(nope, model=replace(nope.model, rope=True))}
    yield experiment_result(context, home.paths(), NAME, name, arms, config)
