#include <cstring>

#include "memory.hpp"
#include "settings.hpp"

namespace emulated_gpu {
namespace {

struct Rows {
  char* to = nullptr;
  const char* from = nullptr;
  std::size_t to_pitch = 0, from_pitch = 0, bytes = 0, rows = 1;
};

// Mode *clock*: what came from the device is zero where a program may look at it as a number, and
// the rest is not copied.
void move(const Rows& rows) {
  constexpr std::size_t kNumbers = 64 << 10;
  if (settings().clock) {
    const bool to_host = deviceOf(rows.to) == nullptr && deviceOf(rows.from) != nullptr;
    if (!to_host || rows.bytes * rows.rows > kNumbers) return;
    for (std::size_t i = 0; i < rows.rows; ++i) {
      std::memset(rows.to + i * rows.to_pitch, 0, rows.bytes);
    }
    return;
  }
  for (std::size_t i = 0; i < rows.rows; ++i) {
    std::memmove(rows.to + i * rows.to_pitch, rows.from + i * rows.from_pitch, rows.bytes);
  }
}

// Between the device and the host's memory, or within the device.
Work workOf(const Rows& rows, bool to_host, bool from_host, bool pageable) {
  const std::size_t all = rows.bytes * rows.rows;
  const bool over_link = to_host || from_host;
  const Engine over = to_host ? Engine::kToHost : Engine::kToDevice;
  return {.run = [rows] { move(rows); },
          .cost = over_link ? hostCopyTime(all, to_host, pageable) : deviceCopyTime(all),
          .engine = over_link ? over : Engine::kCompute,
          .accesses = {{rows.from, rows.bytes, false, rows.rows, rows.from_pitch},
                       {rows.to, rows.bytes, true, rows.rows, rows.to_pitch}},
          .name = "a copy"};
}

// From pageable memory: it is read before the call returns.
Work stagedWork(const Rows& rows) {
  if (settings().clock) return workOf(rows, false, true, true);
  auto staged = std::make_shared<std::vector<char>>(rows.bytes * rows.rows);
  Rows in = rows;
  in.to = staged->data();
  in.to_pitch = rows.bytes;
  move(in);
  Rows out = rows;
  out.from = staged->data();
  out.from_pitch = rows.bytes;
  Work work = workOf(out, false, true, true);
  work.accesses.erase(work.accesses.begin());
  work.run = [out, staged] { move(out); };
  return work;
}

CUresult enqueueRows(const Rows& rows, CUstream stream) {
  if (rows.bytes * rows.rows == 0) return CUDA_SUCCESS;
  const bool to_host = deviceOf(rows.to) == nullptr, from_host = deviceOf(rows.from) == nullptr;
  const CUstream on = resolved(stream);
  if (on->capture == nullptr && from_host && !isPinned(rows.from)) {
    const CUresult error = enqueue(stream, stagedWork(rows));
    if (rows.bytes * rows.rows > timeTable().staged) waitUntilDone(*on);
    return error;
  }
  const bool pageable = to_host && !isPinned(rows.to);
  if (const CUresult error = enqueue(stream, workOf(rows, to_host, from_host, pageable))) {
    return error;
  }
  // To pageable memory: it is written before the call returns.
  if (on->capture == nullptr && pageable) drain(on);
  return on->device->broken;
}

}  // namespace

CUresult copyBytes(void* to, const void* from, std::size_t bytes, CUstream stream) {
  return copyRows(to, bytes, from, bytes, bytes, 1, stream);
}

CUresult copyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                  std::size_t bytes, std::size_t rows, CUstream stream) {
  return enqueueRows(
      {static_cast<char*>(to), static_cast<const char*>(from), to_pitch, from_pitch, bytes, rows},
      stream);
}

CUresult fillBytes(void* begin, int value, std::size_t bytes, CUstream stream) {
  const bool skipped = settings().clock && deviceOf(begin) != nullptr;
  const auto run = [=] {
    if (!skipped) std::memset(begin, value, bytes);
  };
  return enqueue(stream, {.run = run,
                          .cost = settings().timed() ? kernelTime(bytes) : deviceCopyTime(bytes),
                          .engine = Engine::kCompute,
                          .accesses = {{begin, bytes, true}},
                          .name = "a fill"});
}

}  // namespace emulated_gpu
