// ebbtide_step(): the calling thread's training step ends here, the next operation begins another.
//
// Optional, for loops in which no step is seen (docs/configuration.md): once an iteration, after
// the update. Changes no number. C and C++; nothing to link but libdl, where that is a library of
// its own: a program that runs without the plugin finds none, and does nothing.
#pragma once

#include <dlfcn.h>

static inline void ebbtide_step(void) {
  // Of what the process began with (linked, or in LD_PRELOAD) or loaded for all: looked for each
  // time, since it may be loaded later.
  void* const process = dlopen(0, RTLD_LAZY);
  if (process == 0) return;
  void (*const step)(void) = (void (*)(void))dlsym(process, "ebbtide_step");
  if (step != 0) step();
  dlclose(process);
}
