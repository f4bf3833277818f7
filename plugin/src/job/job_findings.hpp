// JobFindings: what rank 0 sees in the reports of all ranks that a rank has to know besides the
// plan, or where there is none. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/rank_report.hpp"

namespace ebbtide::plugin {

struct JobFindings {
  struct Rank {
    std::vector<std::int32_t> stages;  // that it runs, ascending
    // Whatever it computes again it holds so much more than it may; 0: it fits.
    Bytes excess_bytes = 0;
    // The neighbour with the most to spare then, by its rank in the whole job, and what it leaves
    // free at least (of a rank that fits only the point that keeps everything is known);
    // scheduler::kNone: none has any.
    std::int32_t taker = scheduler::kNone;
    Bytes spare_bytes = 0;

    friend bool operator==(const Rank&, const Rank&) = default;
  };

  std::vector<Rank> ranks;

  friend bool operator==(const JobFindings&, const JobFindings&) = default;
};

// A JSON object: docs/formats.md.
std::string toText(const JobFindings& findings);
// Throws std::invalid_argument that says what is wrong with it.
JobFindings findingsFromText(std::string_view text);

// "rank 0 could take a layer: …", or that it or all have too little to spare.
std::string takerText(const JobFindings::Rank& of);

}  // namespace ebbtide::plugin
