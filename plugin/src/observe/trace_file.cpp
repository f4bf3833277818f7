#include "observe/trace_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/system_time.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using Kind = TracedSpan::Kind;

constexpr std::size_t kAtOnce = 1 << 16;  // bytes that are handed to the file
constexpr int kNcclTrack = 0;             // no thread has this number

struct KindNames {
  const char* category;
  const char* name;    // before the op or the step's number, if there is one
  const char* number;  // what it is; nullptr: none
};

KindNames namesOf(Kind kind) noexcept {
  switch (kind) {
    case Kind::kStep:
      return {"step", "step", "step"};
    case Kind::kForward:
      return {"phase", "forward", nullptr};
    case Kind::kBackward:
      return {"phase", "backward", nullptr};
    case Kind::kWait:
      return {"wait", "wait for a message", nullptr};
    case Kind::kRecompute:
      return {"recompute", "recompute", nullptr};
    case Kind::kSpill:
      return {"copy", "spill", "bytes"};
    case Kind::kRestore:
      return {"copy", "restore", "bytes"};
    case Kind::kEncode:
      return {"copy", "encode", "bytes"};
    case Kind::kDecode:
      return {"copy", "decode", "bytes"};
    case Kind::kAhead:
      return {"ahead", "ahead of a message", nullptr};
  }
  return {"", "", nullptr};
}

class Writer {
 public:
  Writer(const TraceRecording& recording, const TraceLabels& labels, metrics::WholeFile& file)
      : recording_(recording), labels_(labels), file_(file) {}

  void write() {
    add(R"({{"schemaVersion":1,"displayTimeUnit":"ms","baseTimeNanoseconds":{},"traceEvents":[)",
        base_ns_);
    addMetadata("process_name", 0,
                fmt::format("ebbtide rank {} (pid {})", labels_.rank, ::getpid()));
    recording_.spans.forEach([this](const TracedSpan& span) {
      if (span.begin_ns >= recording_.begin_ns) addSpan(span);
    });
    recording_.samples.forEach([this](const MemorySample& sample) {
      if (sample.at_ns >= recording_.begin_ns) addSample(sample);
    });
    addWaits();
    for (const std::int32_t thread : trained_)
      addMetadata("thread_name", thread, "training (ebbtide)");
    const nlohmann::json facts = {{"version", kVersion},
                                  {"rank", labels_.rank},
                                  {"first_step", recording_.first_step},
                                  {"last_step", recording_.last_step},
                                  {"lost_spans", recording_.spans.lost()},
                                  {"lost_samples", recording_.samples.lost()}};
    add("\n],\"otherData\":{}}}\n", facts.dump());
    flush();
  }

 private:
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    if (text_.size() >= kAtOnce) flush();
  }

  void flush() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  void beginEvent() {
    add("{}\n", first_ ? "" : ",");
    first_ = false;
  }

  static std::string microseconds(std::int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
  }
  std::string timeOf(std::int64_t steady_ns) const {
    return microseconds(std::max<std::int64_t>(0, steady_ns + offset_ns_ - base_ns_));
  }
  static std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }

  void addMetadata(const char* what, std::int32_t thread, const std::string& name) {
    beginEvent();
    add(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"ts":0,"args":{{"name":{}}}}})", what,
        labels_.rank, thread, quoted(name));
  }

  void addSlice(const char* category, const std::string& name, std::int32_t thread,
                std::int64_t begin_ns, std::int64_t end_ns, const std::string& arguments) {
    beginEvent();
    add(R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        category, quoted(name), labels_.rank, thread, timeOf(begin_ns),
        microseconds(std::max<std::int64_t>(0, end_ns - begin_ns)), arguments);
  }

  void addSpan(const TracedSpan& span) {
    const KindNames names = namesOf(span.kind);
    std::string name = names.name;
    if (span.kind == Kind::kStep) {
      trained_.insert(span.thread);
      name += fmt::format(" {}", span.number);
    }
    std::string arguments;
    if (names.number != nullptr) arguments = fmt::format(R"("{}":{})", names.number, span.number);
    if (span.op != nullptr) {
      name += fmt::format(" {}", span.op);
      arguments += fmt::format(R"({}"op":{})", arguments.empty() ? "" : ",", quoted(span.op));
    }
    addSlice(names.category, name, span.thread, span.begin_ns, span.end_ns, arguments);
  }

  void addCounter(const char* name, std::int64_t at_ns, std::int64_t bytes) {
    beginEvent();
    add(R"({{"ph":"C","name":"{}","pid":{},"tid":0,"ts":{},"args":{{"bytes":{}}}}})", name,
        labels_.rank, timeOf(at_ns), bytes);
  }

  void addSample(const MemorySample& sample) {
    addCounter("allocated", sample.at_ns, sample.allocated_bytes);
    addCounter("mapped", sample.at_ns, sample.mapped_bytes);
    if (sample.budget_bytes != allocator::kUnlimited)
      addCounter("budget", sample.at_ns, sample.budget_bytes);
  }

  void addWaits() {
    bool any = false;
    for (const CommunicationWait& wait : labels_.waits) {
      if (wait.begin_ns < recording_.begin_ns || wait.end_ns < wait.begin_ns) continue;
      addSlice("wait", fmt::format("NCCL {}", nameOf(wait.kind)), kNcclTrack, wait.begin_ns,
               wait.end_ns, fmt::format(R"("bytes":{},"peer":{})", wait.bytes, wait.peer));
      any = true;
    }
    if (any) addMetadata("thread_name", kNcclTrack, "NCCL");
  }

  const TraceRecording& recording_;
  const TraceLabels& labels_;
  metrics::WholeFile& file_;
  const std::int64_t offset_ns_ = steadyToUnixNs();
  const std::int64_t base_ns_ = kinetoBaseNs(steadyNanoseconds() + offset_ns_);
  fmt::memory_buffer text_;
  bool first_ = true;
  std::set<std::int32_t> trained_;
};

}  // namespace

void writeTraceFile(const TraceRecording& recording, const TraceLabels& labels,
                    metrics::WholeFile& file) {
  Writer(recording, labels, file).write();
}

}  // namespace ebbtide::plugin
