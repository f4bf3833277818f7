#include "text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "ebbtide/metrics/whole_file.hpp"

namespace ebbtide::cli {
namespace {

// A graph of 100,000 ops takes 16 MB; the tree of a file up to ten times its size.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(const std::string& path) {
  throw std::invalid_argument("cannot read " + path + ": " + std::strerror(errno));
}

}  // namespace

std::string readText(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(path);
  std::string text;
  std::array<char, 1 << 16> buffer = {};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
    if (text.size() > kMostBytes) throw std::invalid_argument(path + ": is larger than 256 MiB");
  }
  if (std::ferror(file.get()) != 0) fail(path);  // a folder, say
  return text;
}

void writeText(const std::string& path, const std::string& text) {
  metrics::WholeFile file(path, metrics::WholeFile::kAsUsual);
  file.write(text);
  if (!file.keep()) throw std::invalid_argument("cannot write " + file.error());
}

}  // namespace ebbtide::cli
