"""One thread for every test: tensors here are small, and threads that wait for each other are what makes a busy machine slow."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and inherited by the processes that tests start
