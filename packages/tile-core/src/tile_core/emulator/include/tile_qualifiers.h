// Qualifiers that the C++ dialects of GPUs share, which mean nothing on the host: a thread's function is a function, and
// shared memory is the array `tile_shared` of the emulator.
#pragma once

#include "tile_emulator.h"

#define __global__
#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline __attribute__((always_inline))
