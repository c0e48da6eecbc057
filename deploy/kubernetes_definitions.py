"""The same code location with a pod for every step, and the training's on a node with a GPU. Needs dagster-k8s. Untried."""

from dagster_k8s import k8s_job_executor

from range_reader_pipeline.definitions import build_definitions

GPU_POD = {
    "container_config": {"resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": "1"}}},
    "pod_spec_config": {
        "node_selector": {"accelerator": "nvidia"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    },
}

defs = build_definitions(
    executor=k8s_job_executor.configured({"max_concurrent": 4, "per_step_k8s_config": {"checkpoint": GPU_POD}})
)
