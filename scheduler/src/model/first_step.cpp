#include "model/first_step.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Blocks that the step makes and keeps, but for what its backward pass makes: gradients.
std::vector<bool> madeToStay(const Trace& trace, const std::vector<bool>& managed) {
  std::vector<bool> kept(trace.blocks.size(), false);
  const auto is_release = [](const TraceEvent& e) { return e.kind == Kind::kRelease; };
  const auto last_release =
      std::find_if(trace.events.rbegin(), trace.events.rend(), is_release).base();
  bool in_backward = false;
  for (auto event = trace.events.begin(); event != trace.events.end(); ++event) {
    in_backward = (in_backward || event->kind == Kind::kUnpack) && event < last_release;
    if (event->kind == Kind::kFree) kept.at(event->id) = false;
    if (event->kind == Kind::kAlloc)
      kept.at(event->id) = !in_backward && !managed[event->id] && !trace.blocks[event->id].ours;
  }
  return kept;
}

// What is as large as something that was found and given back takes its place. Of more that are as
// large those made first are taken for it: so no moment seems to hold less than it will.
class Successors {
 public:
  Successors(const Trace& trace, const std::vector<bool>& managed)
      : trace_(trace),
        persistent_(madeToStay(trace, managed)),
        read_(trace.blocks.size(), false),
        parameter_(trace.blocks.size(), false) {
    for (const TraceValue& value : trace.values) {
      if (value.block == kNone) continue;
      read_[value.block] = true;
      if (value.parameter) parameter_[value.block] = true;
    }
    for (const TraceEvent& event : trace.events) {
      if (event.kind == Kind::kAlloc && persistent_[event.id]) noteMade(event.id);
      if (event.kind == Kind::kFree && trace.blocks[event.id].before_step) noteGone(event.id);
    }
  }

  const std::vector<bool>& persistent() const { return persistent_; }

  // Found, read by no op, and given back, with nothing as large in its place.
  std::vector<bool> goneForGood() const {
    std::vector<bool> gone(trace_.blocks.size(), false);
    for (const auto& [bytes, places] : places_) {
      for (const BlockId found : places.free) gone[found] = !read_[found];
    }
    return gone;
  }

 private:
  struct Places {              // of one size
    std::deque<BlockId> made;  // that have taken none
    std::deque<BlockId> free;  // left by what was found
  };

  void noteMade(BlockId made) {
    Places& places = places_[trace_.blocks[made].bytes];
    if (places.free.empty()) return places.made.push_back(made);
    places.free.pop_front();
    persistent_[made] = false;
  }

  // A parameter that is made anew (`p.data = …`) is there before the last one goes. What goes
  // before that later steps make again before they read it (FSDP).
  void noteGone(BlockId found) {
    Places& places = places_[trace_.blocks[found].bytes];
    if (!places.made.empty()) {
      persistent_[places.made.front()] = false;
      places.made.pop_front();
    } else if (!parameter_[found]) {
      places.free.push_back(found);
    }
  }

  const Trace& trace_;
  std::vector<bool> persistent_, read_, parameter_;
  std::map<Bytes, Places> places_;
};

// How much more a step's start is taken to hold, with what is persistent, than its end does.
Bytes startBeyondEnd(const Trace& trace, const std::vector<bool>& persistent) {
  Bytes beyond = 0;
  for (std::size_t b = 0; b < trace.blocks.size(); ++b) {
    if (persistent[b]) beyond += trace.blocks[b].bytes;
  }
  for (const TraceEvent& event : trace.events) {
    if (event.kind != Kind::kAlloc && event.kind != Kind::kFree) continue;
    const TraceBlock& block = trace.blocks[event.id];
    if (!block.ours) beyond -= event.kind == Kind::kAlloc ? block.bytes : -block.bytes;
  }
  return beyond;
}

// What was given back, and as much of it made once more in other pieces, which stay: DDP's first
// buckets, whose second ones are ordered as gradients came. Later steps find one of the two. The
// start is not taken to hold less than the end, as the next step begins there; nor any moment less
// than it did in this step.
std::vector<Bytes> foundOnce(const Trace& trace, const Successors& successors) {
  const std::vector<bool>& persistent = successors.persistent();
  const std::vector<bool> gone = successors.goneForGood();
  std::vector<Bytes> found_once(trace.blocks.size(), 0);
  Bytes spare = startBeyondEnd(trace, persistent);
  Bytes made_later = 0;  // of what stays, after the event at hand, less what it takes the place of
  for (auto event = trace.events.rbegin(); event != trace.events.rend(); ++event) {
    if (event->kind != Kind::kAlloc && event->kind != Kind::kFree) continue;
    const Bytes bytes = trace.blocks[event->id].bytes;
    if (persistent[event->id]) made_later += bytes;
    if (!gone[event->id]) continue;
    const Bytes once = std::max<Bytes>(0, std::min({bytes, made_later, spare}));
    found_once[event->id] = once;
    made_later -= once;
    spare -= once;
  }
  return found_once;
}

}  // namespace

FirstStep firstStep(const Trace& trace, const std::vector<bool>& managed) {
  const Successors successors(trace, managed);
  return {successors.persistent(), foundOnce(trace, successors)};
}

}  // namespace ebbtide::scheduler
