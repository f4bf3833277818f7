// Results of an op that runs twice, into memory that was filled with two patterns before: a byte
// that still has its pattern in both was not written. What stands there was left by whoever had the
// memory before, also in the original, and counts for nothing. Torch-free.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

struct FilledRun {
  const void* data = nullptr;
  unsigned char pattern = 0;
};

// Do both runs have the original's bytes, where they wrote any? With the first run for the
// original: does the op repeat? One run twice, with one pattern: are all bytes the same?
bool equalWhereWritten(const void* original, const FilledRun& first, const FilledRun& second,
                       std::int64_t bytes) noexcept;

}  // namespace ebbtide::plugin
