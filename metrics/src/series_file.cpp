#include "ebbtide/metrics/series_file.hpp"

#include "ebbtide/metrics/whole_file.hpp"

namespace ebbtide::metrics {

// The collector reads what ends in .prom: the name beside it does not.
std::optional<std::string> SeriesFile::write(const std::string& text, Time now) {
  due_ = now + kInterval;
  WholeFile file(path_, WholeFile::kForReaders);
  file.write(text);
  if (file.keep()) {
    said_ = false;
    return std::nullopt;
  }
  if (std::exchange(said_, true)) return std::nullopt;
  return file.reason();
}

}  // namespace ebbtide::metrics
