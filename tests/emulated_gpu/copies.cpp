#include <cstring>

#include "memory.hpp"

namespace emulated_gpu {
namespace {

struct Rows {
  char* to = nullptr;
  const char* from = nullptr;
  std::size_t to_pitch = 0, from_pitch = 0, bytes = 0, rows = 1;
};

void move(const Rows& rows) {
  for (std::size_t i = 0; i < rows.rows; ++i) {
    std::memmove(rows.to + i * rows.to_pitch, rows.from + i * rows.from_pitch, rows.bytes);
  }
}

Work workOf(const Rows& rows, bool over_link) {
  const std::size_t all = rows.bytes * rows.rows;
  return {.run = [rows] { move(rows); },
          .cost = over_link ? hostCopyTime(all) : deviceCopyTime(all),
          .accesses = {{rows.from, rows.bytes, false, rows.rows, rows.from_pitch},
                       {rows.to, rows.bytes, true, rows.rows, rows.to_pitch}},
          .name = "a copy"};
}

// From pageable memory: it is read before the call returns.
Work stagedWork(const Rows& rows) {
  auto staged = std::make_shared<std::vector<char>>(rows.bytes * rows.rows);
  Rows in = rows;
  in.to = staged->data();
  in.to_pitch = rows.bytes;
  move(in);
  Rows out = rows;
  out.from = staged->data();
  out.from_pitch = rows.bytes;
  Work work = workOf(out, true);
  work.accesses.erase(work.accesses.begin());
  work.run = [out, staged] { move(out); };
  return work;
}

CUresult enqueueRows(const Rows& rows, CUstream stream) {
  if (rows.bytes * rows.rows == 0) return CUDA_SUCCESS;
  const bool to_host = deviceOf(rows.to) == nullptr, from_host = deviceOf(rows.from) == nullptr;
  const CUstream on = resolved(stream);
  if (on->capture == nullptr && from_host && !isPinned(rows.from)) {
    return enqueue(stream, stagedWork(rows));
  }
  if (const CUresult error = enqueue(stream, workOf(rows, to_host || from_host))) return error;
  // To pageable memory: it is written before the call returns.
  if (on->capture == nullptr && to_host && !isPinned(rows.to)) drain(on);
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
  return enqueue(stream, {.run = [=] { std::memset(begin, value, bytes); },
                          .cost = deviceCopyTime(bytes),
                          .accesses = {{begin, bytes, true}},
                          .name = "a fill"});
}

}  // namespace emulated_gpu
