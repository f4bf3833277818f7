#include "exposition_merge.hpp"

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>

namespace ebbtide::metrics {
namespace {

struct Family {
  std::string_view name;
  std::string_view type;                // of its TYPE line
  std::vector<std::string_view> about;  // HELP, TYPE and UNIT lines
  std::size_t source = 0;               // the text that they are from
  std::vector<std::string_view> samples;
};

bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':';
}

std::string_view nameAtStart(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && isNameCharacter(text[length])) ++length;
  return text.substr(0, length);
}

// The name and labels of a sample's line, or nothing where there is no value after them. A quoted
// value of a label may have a brace.
std::string_view seriesOf(std::string_view line) {
  const std::size_t name = nameAtStart(line).size();
  std::size_t end = name;
  if (name == 0) return "";
  if (end < line.size() && line[end] == '{') {
    bool quoted = false;
    for (++end; end < line.size() && (quoted || line[end] != '}'); ++end) {
      if (quoted && line[end] == '\\') {
        ++end;
      } else if (line[end] == '"') {
        quoted = !quoted;
      }
    }
    ++end;
  }
  if (end + 1 >= line.size() || line[end] != ' ' || line[end + 1] == ' ') return "";
  return line.substr(0, end);
}

// True when a family of that type has samples of its name with that ending.
bool belongs(std::string_view ending, std::string_view type) {
  if (ending.empty()) return true;
  if (type == "counter") return ending == "_total" || ending == "_created";
  if (type == "info") return ending == "_info";
  if (type == "summary" || type == "histogram") {
    return ending == "_sum" || ending == "_count" || ending == "_created" ||
           (ending == "_bucket" && type == "histogram");
  }
  return type == "gaugehistogram" &&
         (ending == "_bucket" || ending == "_gsum" || ending == "_gcount");
}

class Merger {
 public:
  void add(std::string_view text) {
    ++source_;
    current_ = nullptr;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) return;  // cut off: half a line is no line
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end + 1);
      bytes_ += line.size() + 1;
      if (line.starts_with('#')) {
        takeAbout(line);
      } else {
        takeSample(line);
      }
    }
  }

  std::string text(bool open_metrics) const {
    std::string merged;
    merged.reserve(bytes_ + 8);
    const auto append = [&merged](std::string_view line) {
      merged.append(line);
      merged += '\n';
    };
    for (const Family& family : families_) {
      if (family.samples.empty()) continue;
      for (const std::string_view line : family.about) append(line);
      for (const std::string_view line : family.samples) append(line);
    }
    if (open_metrics) append("# EOF");
    return merged;
  }

 private:
  Family& family(std::string_view name) {
    const auto [entry, is_new] = by_name_.emplace(name, nullptr);
    if (is_new) {
      entry->second = &families_.emplace_back();
      entry->second->name = name;
    }
    return *entry->second;
  }

  void takeAbout(std::string_view line) {
    for (const std::string_view word : {"# HELP ", "# TYPE ", "# UNIT "}) {
      if (!line.starts_with(word)) continue;
      const std::string_view name = nameAtStart(line.substr(word.size()));
      std::string_view rest = line.substr(word.size() + name.size());
      if (name.empty() || !rest.starts_with(' ')) return;
      rest.remove_prefix(1);
      current_ = &family(name);
      if (current_->source == 0) current_->source = source_;
      if (current_->source != source_) return;
      for (const std::string_view said : current_->about) {
        if (said.starts_with(word)) return;
      }
      current_->about.push_back(line);
      if (word == "# TYPE ") current_->type = rest;
      return;
    }
  }

  void takeSample(std::string_view line) {
    const std::string_view series = seriesOf(line);
    if (series.empty()) return;
    const std::string_view name = nameAtStart(series);
    const bool of_current = current_ != nullptr && name.starts_with(current_->name) &&
                            belongs(name.substr(current_->name.size()), current_->type);
    if (!of_current) current_ = &family(name);
    if (current_->source == 0) current_->source = source_;
    if (seen_.insert(series).second) current_->samples.push_back(line);
  }

  std::deque<Family> families_;  // in the order in which they came; stay where they are
  std::unordered_map<std::string_view, Family*> by_name_;
  std::unordered_set<std::string_view> seen_;
  Family* current_ = nullptr;
  std::size_t source_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

std::string mergeExpositions(const std::vector<std::string_view>& texts, bool open_metrics) {
  Merger merger;
  for (const std::string_view text : texts) merger.add(text);
  return merger.text(open_metrics);
}

}  // namespace ebbtide::metrics
