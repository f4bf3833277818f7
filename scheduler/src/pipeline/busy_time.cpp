#include "pipeline/busy_time.hpp"

#include <algorithm>
#include <cmath>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

bool saysNothingOfWork(Kind kind) {
  return kind == Kind::kMessage || kind == Kind::kScopeBegin || kind == Kind::kScopeEnd;
}

// The clock at each event and at the step's end, without waits.
std::vector<Nanoseconds> clockWithoutWaits(const Trace& trace) {
  std::vector<Nanoseconds> clock;
  Nanoseconds before = 0, sum = 0;
  bool waits = false;
  for (const TraceEvent& event : trace.events) {
    if (!waits) sum += std::max<Nanoseconds>(0, event.at_ns - before);
    before = std::max(before, event.at_ns);
    clock.push_back(sum);
    waits = saysNothingOfWork(event.kind) && waits;
    if (event.kind == Kind::kMessage) waits = waits || trace.messages[event.id].receive;
  }
  clock.push_back(sum + std::max<Nanoseconds>(0, trace.duration_ns - before));
  return clock;
}

Nanoseconds busyOf(const Trace& trace, const TraceEvent& event) {
  switch (event.kind) {
    case Kind::kMessage:
      return trace.messages[event.id].busy_ns;
    case Kind::kScopeBegin:
      return trace.scopes[event.id].begin_busy_ns;
    case Kind::kScopeEnd:
      return trace.scopes[event.id].end_busy_ns;
    default:
      return kNone;
  }
}

}  // namespace

BusyTime::BusyTime(const Trace& trace) {
  const std::vector<Nanoseconds> clock = clockWithoutWaits(trace);
  busy_.assign(clock.size(), 0);
  marks_.assign(clock.size(), false);
  std::vector<std::size_t> marks;
  Nanoseconds latest = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Nanoseconds busy = busyOf(trace, trace.events[i]);
    if (busy == kNone) continue;
    busy_[i] = latest = std::max(latest, busy);
    marks_[i] = true;
    marks.push_back(i);
  }
  double rate = 1;
  if (!marks.empty() && clock[marks.back()] > 0) {
    rate = std::min(1.0, static_cast<double>(latest) / static_cast<double>(clock[marks.back()]));
  }
  const auto scaled = [](Nanoseconds ns, double by) {
    return std::llround(static_cast<double>(ns) * by);
  };
  std::size_t next = 0;  // the first event after the last mark
  Nanoseconds from_clock = 0, from_busy = 0;
  const auto fill = [&](std::size_t end, double by) {
    for (; next < end; ++next) busy_[next] = from_busy + scaled(clock[next] - from_clock, by);
  };
  for (const std::size_t mark : marks) {
    const Nanoseconds wall = clock[mark] - from_clock, busy = busy_[mark] - from_busy;
    fill(mark, wall > 0 ? static_cast<double>(busy) / static_cast<double>(wall) : 0);
    from_clock = clock[mark];
    from_busy = busy_[mark];
    next = mark + 1;
  }
  fill(busy_.size(), rate);
}

}  // namespace ebbtide::scheduler
