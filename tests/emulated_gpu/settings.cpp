#include "settings.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

namespace emulated_gpu {
namespace {

long number(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

[[noreturn]] void refuse(const std::string& schedule) {
  std::fprintf(stderr,
               "emulated GPU: EMULATED_GPU_SCHEDULE=%s is not eager, lazy, timed or random:SEED\n",
               schedule.c_str());
  std::_Exit(2);
}

void readSchedule(Settings& settings) {
  const char* const text = std::getenv("EMULATED_GPU_SCHEDULE");
  if (text == nullptr) return;
  const std::string schedule = text;
  if (schedule == "lazy") {
    settings.schedule = Schedule::kLazy;
  } else if (schedule == "timed") {
    settings.schedule = Schedule::kTimed;
  } else if (schedule.starts_with("random:")) {
    settings.schedule = Schedule::kRandom;
    settings.seed = std::strtoull(text + std::strlen("random:"), nullptr, 10);
  } else if (schedule != "eager") {
    refuse(schedule);
  }
}

void readMode(Settings& settings) {
  const char* const text = std::getenv("EMULATED_GPU_MODE");
  const std::string mode = text == nullptr ? "bits" : text;
  if (mode != "bits" && mode != "clock") {
    std::fprintf(stderr, "emulated GPU: EMULATED_GPU_MODE=%s is not bits or clock\n", text);
    std::_Exit(2);
  }
  if (mode == "bits") return;
  settings.clock = true;
  settings.schedule = Schedule::kTimed;
  settings.poison = settings.order = false;
}

int visible(int devices) {
  const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) return devices;
  if (*list == '\0' || *list == '-') return 0;
  const auto named = 1 + std::count(list, list + std::strlen(list), ',');
  return std::min(devices, static_cast<int>(named));
}

Settings fromEnvironment() {
  Settings result;
  result.devices = visible(static_cast<int>(number("EMULATED_GPU_DEVICES", 1)));
  result.device_bytes = static_cast<std::size_t>(number("EMULATED_GPU_MIB", 2048)) << 20;
  result.context_bytes = static_cast<std::size_t>(number("EMULATED_GPU_CONTEXT_MIB", 64)) << 20;
  result.unready = static_cast<int>(number("EMULATED_GPU_UNREADY", 3));
  result.longest_queue = static_cast<std::size_t>(number("EMULATED_GPU_LONGEST_QUEUE", 1000));
  result.log = number("EMULATED_GPU_LOG", 0) != 0;
  result.poison = number("EMULATED_GPU_POISON", 1) != 0;
  result.whole_grid = number("EMULATED_GPU_WHOLE_GRID", 0) != 0;
  result.without_waits = number("EMULATED_GPU_WITHOUT_WAITS", 0) != 0;
  result.order = number("EMULATED_GPU_ORDER", 0) != 0;
  result.virtual_memory = number("EMULATED_GPU_VIRTUAL_MEMORY", 1) != 0;
  result.fail_page = number("EMULATED_GPU_FAIL_PAGE", 0);
  result.fail_launch = number("EMULATED_GPU_FAIL_LAUNCH", 0);
  result.trap = number("EMULATED_GPU_TRAP", 0);
  result.others_every = number("EMULATED_GPU_OTHERS_EVERY", 0);
  readSchedule(result);
  readMode(result);
  const long link = number("EMULATED_GPU_HOST_GBPS", result.timed() ? 0 : 20);
  result.host_bytes_per_ns = static_cast<double>(link);
  result.hbm_percent = static_cast<int>(number("EMULATED_GPU_HBM_PERCENT", 100));
  result.host_percent = static_cast<int>(number("EMULATED_GPU_HOST_PERCENT", 100));
  return result;
}

Settings& given() {
  static Settings result = fromEnvironment();
  return result;
}

}  // namespace

const Settings& settings() {
  return given();
}

void readSettings() {
  given() = fromEnvironment();
}

std::uint64_t randomNumber() {
  static std::mt19937_64 sequence(settings().seed);
  return sequence();
}

void log(const char* format, ...) {
  if (!settings().log) return;
  std::va_list list;
  va_start(list, format);
  std::fputs("emulated GPU: ", stderr);
  std::vfprintf(stderr, format, list);
  std::fputc('\n', stderr);
  va_end(list);
}

}  // namespace emulated_gpu
