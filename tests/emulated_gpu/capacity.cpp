#include "capacity.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

namespace emulated_gpu {
namespace {

constexpr double kNothing = 1e-9;  // a share that is none

}  // namespace

double Capacity::takenAt(Nanoseconds at) const {
  const auto next = taken_.upper_bound(at);
  return next == taken_.begin() ? 0 : std::prev(next)->second;
}

Nanoseconds Capacity::nextChange(Nanoseconds after) const {
  const auto next = taken_.upper_bound(after);
  return next == taken_.end() ? std::numeric_limits<Nanoseconds>::infinity() : next->first;
}

Capacity::Span Capacity::take(Nanoseconds ready, Nanoseconds work, const Capacity* beside,
                              double rate_beside) {
  struct Part {
    Span span;
    double share;
  };
  std::vector<Part> parts;
  Nanoseconds at = ready;
  while (true) {
    const double left = 1 - takenAt(at);
    Nanoseconds change = nextChange(at);
    double rate = left;
    if (beside != nullptr) {
      change = std::min(change, beside->nextChange(at));
      if (beside->takenAt(at) > kNothing) rate *= rate_beside;
    }
    if (left <= kNothing) {
      at = change;
      continue;
    }
    const Nanoseconds end = std::min(change, at + work / rate);
    parts.push_back({{at, end}, left});
    if (at + work / rate <= change) break;
    work -= (end - at) * rate;
    at = end;
  }
  for (const Part& part : parts) add(part.span, part.share);
  return {parts.front().span.begin, parts.back().span.end};
}

void Capacity::occupy(Span span, double share) {
  for (Nanoseconds at = span.begin; at < span.end;) {
    const Nanoseconds end = std::min(span.end, nextChange(at));
    const double left = 1 - takenAt(at);
    if (left > kNothing) add({at, end}, std::min(share, left));
    at = end;
  }
}

void Capacity::add(Span span, double share) {
  if (span.end <= span.begin) return;
  const double before = takenAt(span.begin), after = takenAt(span.end);
  taken_[span.begin] = before;
  taken_[span.end] = after;
  const auto end = taken_.find(span.end);
  for (auto step = taken_.find(span.begin); step != end; ++step) {
    step->second = std::min(1.0, step->second + share);
  }
  // Steps that change nothing.
  const auto first = taken_.find(span.begin);
  const double ahead = first == taken_.begin() ? 0 : std::prev(first)->second;
  if (first->second == ahead) taken_.erase(first);
  if (end->second == std::prev(end)->second) taken_.erase(end);
}

void Capacity::forget(Nanoseconds before) {
  const auto next = taken_.upper_bound(before);
  if (next == taken_.begin()) return;
  taken_.erase(taken_.begin(), std::prev(next));
}

}  // namespace emulated_gpu
