"""The settings of tile-cuda."""

from __future__ import annotations

from tile_core.settings import Setting, Settings, choice


class CudaSettings(Settings):
    """The settings of tile-cuda."""

    compiler = Setting(
        "TILE_CUDA_COMPILER",
        choice("nvrtc", "nvcc"),
        "nvrtc",
        "What compiles printed kernels: NVRTC, which comes as a wheel, or the nvcc of an installed toolkit.",
        changes_code=True,
    )


settings = CudaSettings()
