// Pickle: Python's pickle of dictionaries, lists, texts and numbers, written as it is told; of
// protocol 2 what torch's MemoryViz.js reads. Torch-free.
//
//   Pickle pickle(file);  pickle.dict([&] { pickle.key("a"); pickle.number(1); });  pickle.end();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ebbtide/metrics/whole_file.hpp"

namespace ebbtide::plugin {

class Pickle {
 public:
  explicit Pickle(metrics::WholeFile& file);

  // `fill` calls key() and one value for each entry.
  template <typename Fill>
  void dict(Fill&& fill) {
    put('}');
    put('(');
    fill();
    put('u');
  }
  void key(std::string_view name) { text(name); }
  template <typename Fill>
  void list(Fill&& fill) {
    put(']');
    put('(');
    fill();
    put('e');
  }
  // A list of many: `each` writes one and says whether more come. In parts, for a reader that puts
  // them on its stack.
  template <typename Each>
  void longList(Each&& each) {
    constexpr int kPart = 1000;
    put(']');
    for (bool more = true; more;) {
      put('(');
      for (int i = 0; more && i < kPart; ++i) more = each();
      put('e');
    }
  }
  void text(std::string_view text);
  void number(std::int64_t value);
  void flag(bool value) { put(value ? '\x88' : '\x89'); }
  void end();

 private:
  void put(char code) {
    buffer_.push_back(code);
    if (buffer_.size() >= kAtOnce) flush();
  }
  void putBytes(std::uint64_t value, int bytes);
  void flush();

  static constexpr std::size_t kAtOnce = 1 << 16;

  metrics::WholeFile& file_;
  std::string buffer_;
  std::unordered_map<std::string, std::uint32_t> known_;  // texts, by their number in the memo
};

}  // namespace ebbtide::plugin
