"""What can be launched by name. All three are selections of the assets; each may be launched from the UI as it is.

Run tags of one key keep two runs of the same job from overlapping. That only one training runs at a time is the business of the
pool and the lock, because the Materialize button of an asset launches runs without these tags.
"""

import dagster as dg

from range_reader_pipeline.stages import ALL, DATA, STAGE_TAG, TRAIN

refresh_dataset = dg.define_asset_job(
    "refresh_dataset",
    selection=dg.AssetSelection.assets("ohh_files", "encoded_shards"),
    tags={STAGE_TAG: DATA},
    description="Look at the folder of hand histories and encode what is new. Trains nothing.",
)

train_and_evaluate = dg.define_asset_job(
    "train_and_evaluate",
    selection=dg.AssetSelection.assets("checkpoint", "stratified_eval", "sharpening_report", "range_report"),
    tags={STAGE_TAG: TRAIN},
    description="Train on the shards as they are, keep the better checkpoint, and grade it.",
)

everything = dg.define_asset_job(
    "everything",
    selection=dg.AssetSelection.assets(
        "arena_hands", "ohh_files", "encoded_shards", "checkpoint", "stratified_eval", "sharpening_report", "range_report"
    ),
    tags={STAGE_TAG: ALL},
    description="From hand histories (dealt where there are none) to the reports: the whole chain, what is unchanged being reused.",
)
