// LD_PRELOAD: fflush(stdout) waits until the planning thread has nothing to do. train_cpp flushes
// after each step. It waits as tests/e2e/planner.py does for the planning thread.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace {

namespace fs = std::filesystem;

constexpr auto kPause = std::chrono::milliseconds(2);
constexpr int kTimesIdle = 3;  // looks in a row: the thread may sleep for a moment on a lock

// Empty: the thread has ended.
std::string lineIn(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

bool isIdle(const fs::path& thread) {
  const std::string stat = lineIn(thread / "stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end, 3, ") S") == 0;
}

void settle() {
  std::error_code ignored;
  for (const auto& thread : fs::directory_iterator("/proc/self/task", ignored)) {
    if (lineIn(thread.path() / "comm") != "ebbtide-plan") continue;
    for (int idle = 0; idle < kTimesIdle; std::this_thread::sleep_for(kPause))
      idle = isIdle(thread.path()) ? idle + 1 : 0;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fflush(std::FILE* file) {
  static const auto system = reinterpret_cast<int (*)(std::FILE*)>(dlsym(RTLD_NEXT, "fflush"));
  const int result = system(file);
  if (file == stdout) settle();
  return result;
}
