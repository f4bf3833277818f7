// LD_PRELOAD: a disk that takes values and loses them, or that fails to read them. The program says
// when: zeros are written in place of values while ebbtide_lose_writes(true) holds, and as many
// reads of values fail as the last ebbtide_fail_reads() says.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <vector>

namespace {

constexpr std::size_t kLeastBytes = 32 << 10;  // of a value, as SpillTarget has it

std::atomic<bool> loses{false};
std::atomic<int> reads_to_fail{0};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE void ebbtide_lose_writes(bool on) {
  loses = on;
}

VISIBLE void ebbtide_fail_reads(int count) {
  reads_to_fail = count;
}

VISIBLE ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) {
  static const auto system = next<decltype(&pwrite)>("pwrite");
  if (!loses || bytes < kLeastBytes) return system(file, data, bytes, offset);
  const std::vector<char> zeros(bytes, 0);
  return system(file, zeros.data(), bytes, offset);
}

VISIBLE ssize_t pread(int file, void* data, std::size_t bytes, off_t offset) {
  static const auto system = next<decltype(&pread)>("pread");
  if (bytes < kLeastBytes || reads_to_fail == 0) return system(file, data, bytes, offset);
  --reads_to_fail;
  errno = EIO;
  return -1;
}
