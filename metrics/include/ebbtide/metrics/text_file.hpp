// TextFile: a rank's series in a file, for node_exporter's textfile collector and for jobs that end
// before anybody scrapes them.
//
// Readers see one whole text or the one before: it is written beside the file and renamed. Thread
// rule: one thread at a time, never a training one, since the disk may be slow.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace ebbtide::metrics {

class TextFile {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kInterval = std::chrono::seconds(5);

  explicit TextFile(std::string path) : path_(std::move(path)) {}

  Time due() const noexcept { return due_; }  // the next writing; at first at once
  // Whatever happens, the next one is due after the interval. Why it failed, said the first time;
  // what was there stays.
  std::optional<std::string> write(const std::string& text, Time now);

 private:
  int tryWrite(const std::string& text) const;  // errno; 0: done

  const std::string path_;
  Time due_{};
  bool said_ = false;
};

}  // namespace ebbtide::metrics
