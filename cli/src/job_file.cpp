#include "job_file.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/action_orders.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/layered_stage.hpp"
#include "ebbtide/scheduler/rank_budgets.hpp"
#include "job_traces.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

constexpr std::int64_t kMostStages = 1 << 16;

[[noreturn]] void refuse(const toml::node& node, const std::string& what) {
  throw std::invalid_argument("line " + std::to_string(node.source().begin.line) + ": " + what);
}

// A table that may have known keys only. A getter returns `otherwise` for a key that is missing;
// without `otherwise` it refuses the table.
class Keys {
 public:
  Keys(const toml::table& table, std::string name) : table_(table), name_(std::move(name)) {}

  bool has(std::string_view key) {
    known_.insert(std::string(key));
    return table_.contains(key);
  }
  const toml::node& node(std::string_view key) {
    if (!has(key)) refuse(table_, name_ + "no key '" + std::string(key) + "'");
    return *table_.get(key);
  }
  double number(std::string_view key, std::optional<double> otherwise = {}) {
    if (otherwise && !has(key)) return *otherwise;
    const auto value = node(key).value<double>();
    if (!value || !(*value >= 0) || !std::isfinite(*value)) bad(key, "a number of at least 0");
    return *value;
  }
  Nanoseconds nanoseconds(std::string_view key, std::optional<double> otherwise = {}) {
    const double seconds = number(key, otherwise);
    if (seconds > 1e9) bad(key, "at most 1e9 seconds");
    return std::llround(seconds * 1e9);
  }
  std::int32_t count(std::string_view key, std::int64_t least, std::int64_t most,
                     std::optional<std::int64_t> otherwise = {}) {
    if (otherwise && !has(key)) return static_cast<std::int32_t>(*otherwise);
    const toml::node& found = node(key);
    const auto value = found.is_integer() ? found.value<std::int64_t>() : std::nullopt;
    if (!value || *value < least || *value > most) {
      bad(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return static_cast<std::int32_t>(*value);
  }
  std::string text(std::string_view key, std::optional<std::string> otherwise = {}) {
    if (otherwise && !has(key)) return *otherwise;
    const toml::node& found = node(key);
    if (!found.is_string()) bad(key, "text in quotes");
    return *found.value<std::string>();
  }
  // "64MiB", or bytes as a number.
  Bytes bytes(std::string_view key, std::optional<Bytes> otherwise = {}) {
    if (otherwise && !has(key)) return *otherwise;
    const toml::node& found = node(key);
    if (found.is_integer() && *found.value<std::int64_t>() >= 0) {
      return *found.value<std::int64_t>();
    }
    if (!found.is_string()) bad(key, "a size: \"64MiB\", or bytes");
    const std::string size = *found.value<std::string>();
    if (size.ends_with('%')) bad(key, "a size: a percentage of what?");
    try {
      return parseSize(std::string(key), size, 0);
    } catch (const std::invalid_argument& error) {
      refuse(found, name_ + error.what());
    }
  }
  bool flag(std::string_view key, bool otherwise) {
    if (!has(key)) return otherwise;
    const auto value = node(key).value<bool>();
    if (!value || !node(key).is_boolean()) bad(key, "true or false");
    return *value;
  }
  const toml::array& array(std::string_view key) {
    const toml::node& found = node(key);
    if (!found.is_array()) bad(key, "a list");
    return *found.as_array();
  }
  [[noreturn]] void bad(std::string_view key, const std::string& wanted) {
    refuse(node(key), name_ + std::string(key) + ": not " + wanted);
  }
  // After all getters.
  void refuseOthers() {
    for (const auto& [key, value] : table_) {
      if (!known_.contains(std::string(key.str()))) {
        refuse(value, name_ + "unknown key '" + std::string(key.str()) + "'");
      }
    }
  }

 private:
  const toml::table& table_;
  const std::string name_;  // "profile block: ", or nothing
  std::set<std::string> known_;
};

class JobReader {
 public:
  JobReader(const toml::table& root, std::string folder)
      : root_(root), folder_(std::move(folder)), keys_(root, "") {}

  JobFile read() {
    PipelineJob& job = file_.job;
    ranks_ = keys_.count("ranks", 1, kMostStages);
    const bool recorded = keys_.has("traces");
    if (recorded) readTraces();
    job.replays_ahead = keys_.flag("replays_ahead", true);
    job.processors = keys_.count("processors", 0, kMostStages, 0);
    job.latency_ns = keys_.nanoseconds("latency_seconds", 0);
    job.bytes_per_second = keys_.number("bandwidth_bytes_per_second", 0);
    file_.data_parallel = keys_.count("data_parallel", 1, 1 << 20, 1);
    if (!recorded) {
      job.microbatches = keys_.count("microbatches", 1, 1 << 20);
      readProfiles();
      readStages();
      readOrder();
      job.budgets = budgetsOf(job);
    }
    keys_.refuseOthers();
    checkJob(job);
    return std::move(file_);
  }

 private:
  // A path with {rank} in it, from the job file's folder.
  void readTraces() {
    constexpr std::string_view kRank = "{rank}";
    const std::string pattern = keys_.text("traces");
    const std::size_t at = pattern.find(kRank);
    if (at == pattern.npos && ranks_ > 1) keys_.bad("traces", "a path with {rank} in it");
    std::vector<std::string> paths;
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      std::string path = pattern;
      if (at != path.npos) path.replace(at, kRank.size(), std::to_string(rank));
      paths.push_back(path.starts_with('/') || folder_.empty() ? path : folder_ + "/" + path);
    }
    const auto taken = [this](const auto& take) {
      try {
        return take();
      } catch (const std::invalid_argument& error) {
        refuse(keys_.node("traces"), error.what());
      }
    };
    const RecordedJob recorded = taken([&] { return RecordedJob(paths); });
    const std::vector<Bytes> budgets = budgetsOf(recorded.outline());
    file_.job = taken([&] { return recorded.within(budgets, file_.notes); });
    file_.schedule = "recorded";
  }

  static const toml::table& tableOf(const toml::node& node, const std::string& what) {
    if (!node.is_table()) refuse(node, what + " is not a table");
    return *node.as_table();
  }

  void readProfiles() {
    const toml::table& profiles = tableOf(keys_.node("profile"), "profile");
    for (const auto& [key, value] : profiles) {
      const std::string name(key.str());
      profiles_[name] = profileOf(name, tableOf(value, "profile." + name));
    }
  }

  static StageProfile profileOf(const std::string& name, const toml::table& table) {
    Keys keys(table, "profile." + name + ": ");
    StageProfile profile;
    profile.name = name;
    profile.forward_ns = keys.nanoseconds("forward_seconds");
    if (keys.has("backward_seconds")) {
      const Nanoseconds both = keys.nanoseconds("backward_seconds");
      profile.input_backward_ns = both / 2;
      profile.weight_backward_ns = both - both / 2;
    } else {
      profile.input_backward_ns = keys.nanoseconds("input_backward_seconds");
      profile.weight_backward_ns = keys.nanoseconds("weight_backward_seconds");
    }
    profile.tail_ns = keys.nanoseconds("tail_seconds", 0);
    profile.fixed_bytes = keys.bytes("fixed", 0);
    profile.output_bytes = keys.bytes("output", 0);
    profile.weight_held_bytes = keys.bytes("weight_held", 0);
    const toml::array& points = keys.array("points");
    if (points.empty()) keys.bad("points", "a point or more");
    for (const toml::node& node : points) {
      Keys at(tableOf(node, "a point"), "profile." + name + ": point: ");
      StagePoint point;
      point.held_bytes = at.bytes("held");
      point.forward_bytes = at.bytes("forward", point.held_bytes);
      point.backward_bytes = at.bytes("backward", point.held_bytes);
      point.ahead_bytes = at.bytes("ahead", point.backward_bytes);
      point.recompute_ns = at.nanoseconds("recompute_seconds", 0);
      at.refuseOthers();
      profile.points.push_back(point);
    }
    keys.refuseOthers();
    return profile;
  }

  // Rows are consecutive stages, one a rank in turn, unless they say otherwise.
  void readStages() {
    std::map<std::vector<std::string>, std::int32_t> known;
    for (const toml::node& node : keys_.array("stage")) {
      Keys keys(tableOf(node, "a stage"),
                "stage " + std::to_string(file_.job.stages.size()) + ": ");
      const std::int32_t count = keys.count("count", 1, kMostStages, 1);
      std::vector<std::string> layers;
      for (const toml::node& layer : keys.array("layers")) {
        const auto name = layer.value<std::string>();
        if (!name || !profiles_.contains(*name)) {
          refuse(layer, "no profile." + name.value_or("of this kind"));
        }
        layers.push_back(*name);
      }
      if (layers.empty()) keys.bad("layers", "a layer or more");
      const auto [profile, is_new] =
          known.try_emplace(layers, static_cast<std::int32_t>(file_.job.profiles.size()));
      if (is_new) addProfile(layers);
      const bool has_rank = keys.has("rank"), is_first = keys.flag("first", false);
      for (std::int32_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::int32_t>(file_.job.stages.size());
        if (number == kMostStages) keys.bad("count", "2^16 stages in all");
        Stage stage;
        stage.profile = profile->second;
        stage.rank = has_rank ? keys.count("rank", 0, ranks_ - 1) : number % ranks_;
        if (number > 0 && !(is_first && i == 0)) {
          stage.previous = number - 1;
          file_.job.stages[number - 1].next = number;
        }
        file_.job.stages.push_back(stage);
      }
      keys.refuseOthers();
    }
  }

  void addProfile(const std::vector<std::string>& names) {
    std::vector<StageProfile> layers;
    std::string name;
    for (const std::string& layer : names) {
      layers.push_back(profiles_.at(layer));
      name += (name.empty() ? "" : "+") + layer;
    }
    file_.job.profiles.push_back(joinLayers(name, layers));
  }

  void readOrder() {
    PipelineJob& job = file_.job;
    if (keys_.has("actions")) {
      file_.schedule = "actions";
      for (const toml::node& row : keys_.array("actions")) {
        const auto text = row.value<std::string>();
        if (!text) refuse(row, "actions: not a list of texts, one a rank");
        try {
          job.order.push_back(actionsFromText(*text));
        } catch (const std::invalid_argument& error) {
          refuse(row, std::string("actions: ") + error.what());
        }
      }
      if (job.order.size() != static_cast<std::size_t>(ranks_)) {
        keys_.bad("actions", "as many texts as there are ranks");
      }
      return;
    }
    file_.schedule = keys_.text("schedule");
    const auto stages = static_cast<std::int32_t>(job.stages.size());
    if (stages % ranks_ != 0) refuse(root_, "stages: not a multiple of the ranks");
    try {
      job.order = actionOrder(file_.schedule, {ranks_, stages / ranks_, job.microbatches});
    } catch (const std::invalid_argument& error) {
      refuse(keys_.node("schedule"), error.what());
    }
  }

  std::vector<Bytes> budgetsOf(const PipelineJob& job) {
    const Bytes memory = keys_.bytes("memory", 0);
    const std::string text = keys_.text("budget");
    const RankBudgets budgets = [&] {
      try {
        return RankBudgets::parse("budget", text);
      } catch (const std::invalid_argument& error) {
        refuse(keys_.node("budget"), error.what());
      }
    }();
    std::vector<std::int32_t> all(job.stages.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::string> others = budgets.forNoRankOf(ranks_);
    if (others.empty()) others = budgets.forNoStageOf(all);
    if (!others.empty()) {
      keys_.bad("budget", "for " + others.front() + ": the job has the ranks 0 to " +
                              std::to_string(ranks_ - 1) + " and the stages 0 to " +
                              std::to_string(all.size() - 1));
    }
    std::vector<std::vector<std::int32_t>> stages(ranks_);
    for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
      stages[job.stages[stage].rank].push_back(static_cast<std::int32_t>(stage));
    }
    std::vector<Bytes> of_ranks;
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      const auto size = budgets.textOf(rank, stages[rank]);
      if (!size) keys_.bad("budget", "for rank " + std::to_string(rank) + ": add default=SIZE");
      const BudgetForm form = BudgetForm::parse("budget", *size);
      if (form.kind == BudgetForm::Kind::kMemoryShare && memory == 0) {
        keys_.bad("budget", "a percentage without the key memory");
      }
      const auto bytes = resolve(form, {.memory_bytes = memory});
      if (!bytes) keys_.bad("budget", *size + ": only a run knows its bytes");
      of_ranks.push_back(*bytes);
    }
    return of_ranks;
  }

  const toml::table& root_;
  const std::string folder_;
  Keys keys_;
  JobFile file_;
  std::map<std::string, StageProfile> profiles_;
  std::int32_t ranks_ = 0;
};

}  // namespace

JobFile jobFromToml(const std::string& text, const std::string& folder) {
  try {
    const toml::table root = toml::parse(text);
    return JobReader(root, folder).read();
  } catch (const toml::parse_error& error) {
    throw std::invalid_argument("line " + std::to_string(error.source().begin.line) + ": " +
                                std::string(error.description()));
  }
}

}  // namespace ebbtide::cli
