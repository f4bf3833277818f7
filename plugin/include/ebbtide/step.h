// Hints, all optional (docs/configuration.md). They change no number. C and C++; nothing to link
// but libdl, where that is a library of its own: a program that runs without the plugin finds none,
// and does nothing.
//
// ebbtide_step(): the calling thread's training step ends here, the next operation begins another.
// For loops in which no step is seen: once an iteration, after the update.
// ebbtide_stage(): the thread turns to this microbatch of this pipeline stage, both from 0. For
// pipelines that name no microbatches: before each forward and each backward pass.
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

static inline void ebbtide_stage(int stage, int microbatch) {
  void* const process = dlopen(0, RTLD_LAZY);  // as above
  if (process == 0) return;
  void (*const turn_to)(int, int) = (void (*)(int, int))dlsym(process, "ebbtide_stage");
  if (turn_to != 0) turn_to(stage, microbatch);
  dlclose(process);
}
