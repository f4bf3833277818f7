#include "text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace ebbtide::cli {
namespace {

// A graph of 100,000 ops takes 16 MB; the tree of a file up to ten times its size.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::invalid_argument("cannot " + what + " " + path + ": " + std::strerror(errno));
}

}  // namespace

std::string readText(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail("read", path);
  std::string text;
  std::array<char, 1 << 16> buffer = {};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
    if (text.size() > kMostBytes) throw std::invalid_argument(path + ": is larger than 256 MiB");
  }
  if (std::ferror(file.get()) != 0) fail("read", path);  // a folder, say
  return text;
}

void writeText(const std::string& path, const std::string& text) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail("write", path);
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) fail("write", path);
  if (std::fclose(file.release()) != 0) fail("write", path);  // a full disk may show only now
}

}  // namespace ebbtide::cli
