#include "observe/pickle.hpp"

#include <limits>

namespace ebbtide::plugin {
namespace {

// Codes of CPython's pickletools.
constexpr char kProtocol = '\x80', kStop = '.';
constexpr char kText = 'X', kRemember = 'r', kRecall = 'j';
constexpr char kNumber4 = 'J', kNumberLong = '\x8a';

}  // namespace

Pickle::Pickle(metrics::WholeFile& file) : file_(file) {
  put(kProtocol);
  put(2);
}

void Pickle::putBytes(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) put(static_cast<char>(value & 0xff));
}

void Pickle::text(std::string_view text) {
  const auto [known, is_new] =
      known_.try_emplace(std::string(text), static_cast<std::uint32_t>(known_.size()));
  if (!is_new) {
    put(kRecall);
    return putBytes(known->second, 4);
  }
  put(kText);
  putBytes(text.size(), 4);
  for (const char letter : text) put(letter);
  put(kRemember);
  putBytes(known->second, 4);
}

void Pickle::number(std::int64_t value) {
  const bool fits = value >= std::numeric_limits<std::int32_t>::min() &&
                    value <= std::numeric_limits<std::int32_t>::max();
  put(fits ? kNumber4 : kNumberLong);
  if (!fits) put(8);  // bytes
  putBytes(static_cast<std::uint64_t>(value), fits ? 4 : 8);
}

void Pickle::end() {
  put(kStop);
  flush();
}

void Pickle::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

}  // namespace ebbtide::plugin
