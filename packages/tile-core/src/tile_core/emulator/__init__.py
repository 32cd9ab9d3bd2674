"""Run a backend's printed source on the CPU: compiled with the system's C++ compiler against emulator headers.

The parts and where a further one goes:

* `include/tile_emulator.h`, `source/scheduler.cpp`: threads, and `Meeting`, of which everything that threads wait for
  is made. A barrier with phases or of a cluster is a meeting; a copy that lands at its wait is done as one opens.
* `together` of the header: what lanes do in common. An exchange, a vote or a matrix instruction of a warp is a function
  of the lanes' values; a vendor's header has one definition for each.
* `source/checks.cpp`: who accessed what last, ordered by meetings. A unit that works beside the threads, such as an
  engine for copies, is a further thread there.
* `source/undefined.cpp`: what C leaves undefined, found by checks of the compiler.
* `checks.py`: prints accesses so that they are checked, for any language.
* a backend's `emulator/include`: its names over these.
"""

from tile_core.emulator.artifact import EmulatedLanguage, emulated_artifact
from tile_core.emulator.runtime import load_emulated

__all__ = ["EmulatedLanguage", "emulated_artifact", "load_emulated"]
