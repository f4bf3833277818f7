#include "job/rank_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "base/no_budget.hpp"
#include "job/job_document.hpp"
#include "job/packed_text.hpp"

namespace ebbtide::plugin {
namespace {

using Numbers = std::vector<std::int64_t>;
using Range = JobDocument::Range;
using Kind = scheduler::PipelineAction::Kind;

constexpr std::string_view kKinds = "FBIW";                   // by Kind
constexpr std::size_t kMostReadBytes = std::size_t{1} << 20;  // later versions may say more
constexpr std::size_t kMostActions = 1 << 17;
constexpr std::size_t kMostMessages = 1 << 18;
constexpr std::size_t kMostPoints = 1 << 14;  // of all classes
constexpr std::size_t kMostTextBytes = 512;
constexpr std::int32_t kMostLabel = 1 << 20;
constexpr Range kAmount{0, kNoBudgetBytes};  // bytes, nanoseconds

Range below(std::size_t count) {
  return {0, static_cast<std::int64_t>(count) - 1};
}

std::int32_t id(std::int64_t number) {
  return static_cast<std::int32_t>(number);
}

// Messages are few different ones: each is told once, and actions by its place there.
class DistinctMessages {
 public:
  std::int64_t placeOf(const RankReport::Message& message) {
    const auto [found, added] = places_.emplace(message, static_cast<std::int64_t>(places_.size()));
    if (added) {
      receive.push_back(message.receive ? 1 : 0);
      peer.push_back(message.peer);
      bytes.push_back(message.bytes);
    }
    return found->second;
  }

  Numbers receive, peer, bytes;

 private:
  std::map<RankReport::Message, std::int64_t> places_;
};

// What most reports have in them.
constexpr std::string_view kKnown =
    R"({"asks_stages":false,"back":[0,0,0,0],"budget":,"busy_ns":[],"bytes":[],"chunk":[0,0,0,0],)"
    R"("chunk_class":[0,0,0,0],"fixed":,"forward":[],"backward":[],"global_rank":0,"held":[],)"
    R"("host":"","host_processors":0,"kinds":"FFFFFFFFBFBFBFBFBBBBBBBBFIWFIW","message_counts":[1,)"
    R"(2,2,2,2,2],"messages":[0,1,2,3,0,1,2,3,0,1,0,1,2,3,2,3],"microbatch":[0,1,1,1,1,1],)"
    R"("own_peak":,"own_replay":[0,0,0,0],"own_replay_unit_ns":1,"peer":[],"point_counts":[10],)"
    R"("rank":0,"receive":[1,0,1,0],"recompute_ns":[0,],"short":true,"size":,"stage":[0,0,0,0,)"
    R"(-1,0,0,0],"tail_ns":,"unable":"","weight_held":[0]})";

// Programs go on evenly: what is said of a chunk is how far it is from what was expected.
class ExpectedChunks {
 public:
  std::int64_t expected(Kind kind) const { return next_[static_cast<std::size_t>(kind)]; }
  void note(Kind kind, std::int64_t chunk) { next_[static_cast<std::size_t>(kind)] = chunk + 1; }

 private:
  std::array<std::int64_t, 4> next_{};
};

void addStep(Numbers& steps, std::int64_t& before, std::int64_t number) {
  steps.push_back(number - before);
  before = number;
}

Numbers summed(Numbers steps, const char* key, Range range) {
  std::int64_t sum = 0;
  for (std::int64_t& step : steps) {
    step = sum += step;
    if (sum < range.least || sum > range.most)
      throw std::invalid_argument(fmt::format("\"{}\" comes to {}", key, sum));
  }
  return steps;
}

void writeActions(const RankReport& report, nlohmann::json& object) {
  std::string kinds;
  Numbers chunk, counts, messages;
  DistinctMessages table;
  ExpectedChunks chunks;
  for (const RankReport::Action& action : report.actions) {
    kinds += kKinds[static_cast<std::size_t>(action.kind)];
    chunk.push_back(action.chunk - chunks.expected(action.kind));
    chunks.note(action.kind, action.chunk);
    counts.push_back(static_cast<std::int64_t>(action.messages.size()));
    for (const RankReport::Message& message : action.messages)
      messages.push_back(table.placeOf(message));
  }
  object["kinds"] = kinds;
  object["chunk"] = chunk;
  object["message_counts"] = counts;
  object["messages"] = messages;
  object["receive"] = table.receive;
  object["peer"] = table.peer;
  object["bytes"] = table.bytes;
}

void writeClasses(const RankReport& report, nlohmann::json& object) {
  Numbers counts, held, forward, backward, recompute_ns, weight_held, busy_ns;
  for (const RankReport::ChunkClass& of : report.classes) {
    counts.push_back(static_cast<std::int64_t>(of.points.size()));
    weight_held.push_back(of.weight_held_bytes);
    busy_ns.insert(busy_ns.end(), of.busy_ns.begin(), of.busy_ns.end());
    for (const scheduler::StagePoint& point : of.points) {
      held.push_back(point.held_bytes);
      forward.push_back(point.forward_bytes);
      backward.push_back(point.backward_bytes);
      recompute_ns.push_back(point.recompute_ns);
    }
  }
  object["point_counts"] = counts;
  object["held"] = held;
  object["forward"] = forward;
  object["backward"] = backward;
  object["recompute_ns"] = recompute_ns;
  object["weight_held"] = weight_held;
  object["busy_ns"] = busy_ns;
}

void writeChunks(const RankReport& report, nlohmann::json& object) {
  Numbers chunk_class, back, own_replay, stage, microbatch;
  std::int64_t last_stage = 0, last_microbatch = 0, unit_ns = 0;
  for (const RankReport::Chunk& of : report.chunks) unit_ns = std::gcd(unit_ns, of.own_replay_ns);
  if (unit_ns == 0) unit_ns = 1;
  std::int64_t number = 0;
  for (const RankReport::Chunk& of : report.chunks) {
    chunk_class.push_back(of.chunk_class);
    back.push_back(of.previous == scheduler::kNone ? 0 : number - of.previous);
    own_replay.push_back(of.own_replay_ns / unit_ns);
    addStep(stage, last_stage, of.stage);
    addStep(microbatch, last_microbatch, of.microbatch);
    ++number;
  }
  object["chunk_class"] = chunk_class;
  object["back"] = back;
  object["own_replay"] = own_replay;
  object["own_replay_unit_ns"] = unit_ns;
  object["stage"] = stage;
  object["microbatch"] = microbatch;
}

std::vector<std::vector<RankReport::Message>> readMessages(const JobDocument& document,
                                                           const RankReport& report,
                                                           std::size_t actions) {
  const Numbers receive = document.numbers("receive", kMostMessages, {0, 1});
  const Numbers peer = document.column("peer", receive.size(), {scheduler::kNone, report.size - 1});
  const Numbers bytes = document.column("bytes", receive.size(), kAmount);
  const Numbers counts = document.column("message_counts", actions, {0, kMostMessages});
  const Numbers places = document.numbers("messages", kMostMessages, below(receive.size()));
  std::vector<std::vector<RankReport::Message>> messages(actions);
  std::size_t next = 0;
  for (std::size_t i = 0; i < actions; ++i) {
    for (std::int64_t left = counts[i]; left > 0; --left) {
      if (next == places.size())
        throw std::invalid_argument("\"messages\" has fewer than \"message_counts\" says");
      const auto place = static_cast<std::size_t>(places[next++]);
      messages[i].push_back({receive[place] == 1, id(peer[place]), bytes[place]});
    }
  }
  if (next != places.size())
    throw std::invalid_argument("\"messages\" has more than \"message_counts\" says");
  return messages;
}

void readActions(const JobDocument& document, RankReport& report) {
  const std::string kinds = document.text("kinds", kMostActions);
  const Numbers chunk = document.column("chunk", kinds.size(), {-kMostLabel, kMostLabel});
  auto messages = readMessages(document, report, kinds.size());
  ExpectedChunks chunks;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::size_t letter = kKinds.find(kinds[i]);
    if (letter == std::string_view::npos)
      throw std::invalid_argument(fmt::format("\"kinds\" has something else than {}", kKinds));
    const auto kind = static_cast<Kind>(letter);
    const std::int64_t number = chunks.expected(kind) + chunk[i];
    if (number < 0 || number >= static_cast<std::int64_t>(report.chunks.size()))
      throw std::invalid_argument(fmt::format("\"chunk\" comes to {}", number));
    chunks.note(kind, number);
    report.actions.push_back({kind, id(number), std::move(messages[i])});
  }
}

void checkPoint(const scheduler::StagePoint& point, const scheduler::StagePoint* before) {
  if (point.forward_bytes < point.held_bytes || point.backward_bytes < point.held_bytes)
    throw std::invalid_argument("a point takes less while it runs than what it holds");
  if (before != nullptr &&
      (point.recompute_ns <= before->recompute_ns || point.held_bytes >= before->held_bytes))
    throw std::invalid_argument("a point recomputes no more or holds no less than the one before");
}

void readClasses(const JobDocument& document, RankReport& report) {
  const Numbers counts = document.numbers("point_counts", kMostPoints, {1, kMostPoints});
  const Numbers weight_held = document.column("weight_held", counts.size(), kAmount);
  const Numbers busy_ns = document.column("busy_ns", 4 * counts.size(), kAmount);
  const Numbers held = document.numbers("held", kMostPoints, kAmount);
  const Numbers forward = document.column("forward", held.size(), kAmount);
  const Numbers backward = document.column("backward", held.size(), kAmount);
  const Numbers recompute_ns = document.column("recompute_ns", held.size(), kAmount);
  std::size_t next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    RankReport::ChunkClass of{{}, weight_held[i], {}};
    std::copy_n(busy_ns.begin() + static_cast<std::ptrdiff_t>(4 * i), 4, of.busy_ns.begin());
    for (std::int64_t left = counts[i]; left > 0; --left, ++next) {
      if (next == held.size())
        throw std::invalid_argument("there are fewer points than \"point_counts\" says");
      const scheduler::StagePoint point{held[next], forward[next], backward[next],
                                        recompute_ns[next]};
      checkPoint(point, of.points.empty() ? nullptr : &of.points.back());
      of.points.push_back(point);
    }
    report.classes.push_back(std::move(of));
  }
  if (next != held.size())
    throw std::invalid_argument("there are more points than \"point_counts\" says");
}

void readChunks(const JobDocument& document, RankReport& report) {
  constexpr Range kLabel{scheduler::kNone, kMostLabel}, kStep{-kMostLabel - 1, kMostLabel + 1};
  const Numbers chunk_class =
      document.numbers("chunk_class", kMostActions, below(report.classes.size()));
  const std::size_t count = chunk_class.size();
  const std::int64_t unit_ns = document.number("own_replay_unit_ns", {1, kAmount.most});
  const Numbers own_replay = document.column("own_replay", count, {0, kAmount.most / unit_ns});
  const Numbers back = document.column("back", count, {0, kMostLabel});
  const Numbers stage = summed(document.column("stage", count, kStep), "stage", kLabel);
  const Numbers microbatch =
      summed(document.column("microbatch", count, kStep), "microbatch", kLabel);
  Nanoseconds replays_ns = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::int64_t>(i);
    if (back[i] > number) throw std::invalid_argument("\"back\" goes to before the first one");
    const std::int64_t previous = back[i] == 0 ? scheduler::kNone : number - back[i];
    replays_ns += own_replay[i] * unit_ns;
    if (replays_ns > kAmount.most) throw std::invalid_argument("its replays take too long");
    report.chunks.push_back({id(chunk_class[i]), id(previous), own_replay[i] * unit_ns,
                             id(stage[i]), id(microbatch[i])});
  }
}

}  // namespace

std::string toText(const RankReport& report) {
  nlohmann::json object{{"rank", report.rank},
                        {"size", report.size},
                        {"global_rank", report.global_rank},
                        {"unable", report.unable.substr(0, kMostTextBytes)}};
  if (report.unable.empty()) {
    object["host"] = report.host.substr(0, kMostTextBytes);
    object["host_processors"] = report.host_processors;
    object["budget"] = report.budget_bytes;
    object["asks_stages"] = report.asks_stages;
    object["fixed"] = report.fixed_bytes;
    object["own_peak"] = report.own_peak_bytes;
    object["tail_ns"] = report.tail_ns;
    object["short"] = report.short_of_memory;
    writeActions(report, object);
    writeClasses(report, object);
    writeChunks(report, object);
  }
  return packedReport(report.versions, object.dump(-1, ' ', /*ensure_ascii=*/true,
                                                   nlohmann::json::error_handler_t::replace));
}

std::string packedReport(const JobVersions& versions, std::string_view object) {
  return versionsLine(versions) + packText(object, kKnown);
}

std::string unpackedReport(std::string_view text) {
  takeVersions(text);
  return unpackText(text, kKnown, kMostReadBytes);
}

RankReport reportFromText(std::string_view text) {
  RankReport report;
  std::string_view rest = text;
  report.versions = takeVersions(rest);
  const JobDocument document(unpackedReport(text));
  report.size = id(document.number("size", {1, kMostRanks}));
  report.rank = id(document.number("rank", {0, report.size - 1}));
  report.global_rank = id(document.number("global_rank", {0, kMostRanks}));
  report.unable = document.text("unable", 4 * kMostTextBytes);  // a byte may have become three
  if (!report.unable.empty()) return report;
  report.host = document.text("host", 4 * kMostTextBytes);
  report.host_processors = id(document.number("host_processors", {0, kMostRanks}));
  report.budget_bytes = document.number("budget", kAmount);
  report.asks_stages = document.flag("asks_stages");
  report.fixed_bytes = document.number("fixed", kAmount);
  report.own_peak_bytes = document.number("own_peak", kAmount);
  report.tail_ns = document.number("tail_ns", kAmount);
  report.short_of_memory = document.flag("short");
  readClasses(document, report);
  readChunks(document, report);
  readActions(document, report);
  return report;
}

}  // namespace ebbtide::plugin
