// SeriesFile: a rank's series in a file, for node_exporter's textfile collector and for jobs that
// end before anybody scrapes them.
//
// Readers see one whole text or the one before, and may be other users. Thread rule: one thread at
// a time, never a training one, since the disk may be slow.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace ebbtide::metrics {

class SeriesFile {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kInterval = std::chrono::seconds(5);

  explicit SeriesFile(std::string path) : path_(std::move(path)) {}

  Time due() const noexcept { return due_; }  // the next writing; at first at once
  // Whatever happens, the next one is due after the interval. Why it failed, said once until it
  // works again; what was there stays.
  std::optional<std::string> write(const std::string& text, Time now);

 private:
  const std::string path_;
  Time due_{};
  bool said_ = false;
};

}  // namespace ebbtide::metrics
