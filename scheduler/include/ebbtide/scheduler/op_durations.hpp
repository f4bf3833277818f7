// How long the ops of a program take, from one or more recorded steps of it.
//
// A first step pays for its pages and for cold caches: one of twelve equal layers may take ten
// times as long as another. So ops of the same name that read and write the same bytes are one
// kind, and a kind takes the least time ever seen of it. So do the codecs of their outputs.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

class OpDurations {
 public:
  bool empty() const { return step_ns_ == kUnseen; }

  // Takes in a step's durations, then gives the trace the least ones known.
  void merge(Trace& trace);

 private:
  // Name, bytes of the inputs, bytes of the outputs; 0 for what is not in a block of ours.
  using Kind = std::tuple<std::string, std::vector<Bytes>, std::vector<Bytes>>;
  static constexpr Nanoseconds kUnseen = -1;

  void mergeCodecs(Trace& trace);
  static Kind kindOf(const Trace& trace, const TraceOp& op);

  std::map<Kind, Nanoseconds> least_ns_;
  // Of an output: its op's name, its place among the outputs, its encoded bytes.
  std::map<std::tuple<std::string, std::size_t, Bytes>, Nanoseconds> least_codec_ns_;
  Nanoseconds step_ns_ = kUnseen;
};

}  // namespace ebbtide::scheduler
