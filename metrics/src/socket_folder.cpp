#include "ebbtide/metrics/socket_folder.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

namespace ebbtide::metrics {
namespace {

constexpr std::string_view kBefore = "rank-";
constexpr std::string_view kAfter = ".sock";

// A socket's address has little room: no doubled slashes.
std::string shortest(const std::filesystem::path& path) {
  std::string text = path.lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

}  // namespace

std::string socketFolder(const std::string& given) {
  if (!given.empty()) return shortest(std::filesystem::absolute(given));
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/')
    return shortest(std::filesystem::path(runtime) / "ebbtide");
  return "/tmp/ebbtide-" + std::to_string(::geteuid());
}

std::string socketOfRank(int rank) {
  return std::string(kBefore) + std::to_string(rank) + std::string(kAfter);
}

std::optional<int> rankOfSocket(std::string_view name) {
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return {};
  if (name.size() <= kBefore.size() + kAfter.size()) return {};
  name.remove_prefix(kBefore.size());
  name.remove_suffix(kAfter.size());
  return rankNumber(name);
}

std::optional<int> rankNumber(std::string_view digits) {
  int rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rank < 0) return {};
  return rank;
}

}  // namespace ebbtide::metrics
