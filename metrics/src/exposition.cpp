#include "exposition.hpp"

#include <prometheus/text_serializer.h>

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace ebbtide::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view kTotal = "_total";
constexpr std::string_view kInfo = "_info";
constexpr std::array<std::string_view, 3> kUnits = {"_bytes", "_seconds", "_ratio"};

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::string(text.data(), end) : "NaN";
}

// As the format wants bounds of buckets: 1.0, not 1.
std::string bound(double value) {
  std::string text = number(value);
  const bool whole = text.find_first_not_of("0123456789") == std::string::npos;
  return whole ? text + ".0" : text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class OpenMetricsWriter {
 public:
  void write(const MetricFamily& family) {
    const bool counter = family.type == MetricType::Counter;
    const bool info = family.type == MetricType::Gauge && family.name.ends_with(kInfo);
    std::string_view name = family.name;
    if (counter && name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
    if (info) name.remove_suffix(kInfo.size());
    writeHead(name, info ? "info" : typeOf(family.type), family.help);
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        writeHistogram(name, metric);
      } else if (counter) {
        writeSample(name, kTotal, metric, number(metric.counter.value));
      } else {
        writeSample(name, info ? kInfo : "", metric, number(metric.gauge.value));
      }
    }
  }
  std::string finish() { return std::move(out_ += "# EOF\n"); }

 private:
  static const char* typeOf(MetricType type) {
    switch (type) {
      case MetricType::Counter:
        return "counter";
      case MetricType::Gauge:
        return "gauge";
      case MetricType::Histogram:
        return "histogram";
      default:
        throw std::invalid_argument("a family of a type that is not exported");
    }
  }

  void writeHead(std::string_view name, std::string_view type, std::string_view help) {
    out_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
    for (const std::string_view unit : kUnits) {
      if (name.ends_with(unit) && type != "info")
        out_.append("# UNIT ").append(name).append(" ").append(unit.substr(1)).append("\n");
    }
    out_.append("# HELP ").append(name).append(" ").append(escaped(help)).append("\n");
  }

  void writeSample(std::string_view name, std::string_view suffix, const ClientMetric& metric,
                   const std::string& value, const std::string& le = "") {
    out_.append(name).append(suffix);
    char before = '{';
    const auto label = [&](std::string_view key, std::string_view text) {
      out_ += std::exchange(before, ',');
      out_.append(key).append("=\"").append(escaped(text)).append("\"");
    };
    for (const auto& [key, text] : metric.label) label(key, text);
    if (!le.empty()) label("le", le);
    if (before == ',') out_ += '}';
    out_.append(" ").append(value).append("\n");
  }

  void writeHistogram(std::string_view name, const ClientMetric& metric) {
    const ClientMetric::Histogram& histogram = metric.histogram;
    for (const auto& bucket : histogram.bucket)
      writeSample(name, "_bucket", metric, std::to_string(bucket.cumulative_count),
                  bound(bucket.upper_bound));
    writeSample(name, "_count", metric, std::to_string(histogram.sample_count));
    writeSample(name, "_sum", metric, number(histogram.sample_sum));
  }

  std::string out_;
};

}  // namespace

std::string expose(const std::vector<MetricFamily>& families, Format format) {
  if (format == Format::kText) return prometheus::TextSerializer().Serialize(families);
  OpenMetricsWriter writer;
  for (const MetricFamily& family : families) writer.write(family);
  return writer.finish();
}

}  // namespace ebbtide::metrics
