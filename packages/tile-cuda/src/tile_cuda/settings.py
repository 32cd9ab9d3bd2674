"""The settings of tile-cuda."""

from __future__ import annotations

from tile_core.settings import FLAG, Setting, Settings, choice


class CudaSettings(Settings):
    """The settings of tile-cuda."""

    compiler = Setting(
        "TILE_CUDA_COMPILER",
        choice("nvrtc", "nvcc"),
        "nvrtc",
        "What compiles printed kernels: NVRTC, which comes as a wheel, or the nvcc of an installed toolkit.",
        changes_code=True,
    )
    eager = Setting(
        "TILE_CUDA_EAGER",
        FLAG,
        False,
        "Compile at once also the kernels that only tensors at odd addresses or with rows of odd lengths need, and not "
        "when the first such tensor comes.",
        changes_code=True,
    )


settings = CudaSettings()
