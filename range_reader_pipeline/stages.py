"""What the assets have in common in the graph: one group, and tags that name the stage each belongs to.

One group, because several would show as collapsed boxes. Run tags of the same key keep two runs of one job from overlapping.
"""

from typing import Final

GROUP: Final = "range_reader"
STAGE_TAG: Final = "range_reader/stage"
DATA: Final = "data"
TRAIN: Final = "train"
EVALUATE: Final = "evaluate"
EXPERIMENT: Final = "experiment"
ALL: Final = "all"
GPU_POOL: Final = "gpu"  # one training at a time, whoever launched it
