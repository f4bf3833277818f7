// RankReport: what a rank of a pipelined job tells the one that plans for all. Torch-free.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "job/job_versions.hpp"

namespace ebbtide::plugin {

using scheduler::Bytes;
using scheduler::Nanoseconds;

struct RankReport {
  struct Message {
    bool receive = false;
    std::int32_t peer = 0;  // rank in the group; scheduler::kNone: any
    Bytes bytes = 0;

    friend auto operator<=>(const Message&, const Message&) = default;
  };
  struct Action {
    scheduler::PipelineAction::Kind kind = scheduler::PipelineAction::Kind::kForward;
    std::int32_t chunk = 0;         // which of the rank's forwards: index into `chunks`
    std::vector<Message> messages;  // in the order that the program asks for them

    friend bool operator==(const Action&, const Action&) = default;
  };
  struct ChunkClass {  // forwards that are alike: the microbatches of a stage, say
    std::vector<scheduler::StagePoint> points;
    Bytes weight_held_bytes = 0;  // from the input gradient's end to the weights'
    // Of an action of each kind: processor time, replays not counted. The median: they are alike.
    std::array<Nanoseconds, 4> busy_ns{};

    friend bool operator==(const ChunkClass&, const ChunkClass&) = default;
  };
  struct Chunk {  // one microbatch of one stage
    std::int32_t chunk_class = 0;
    std::int32_t previous =
        scheduler::kNone;           // an earlier chunk of this rank whose output it reads unsent
    Nanoseconds own_replay_ns = 0;  // what it replays under the rank's present plan of its own
    std::int32_t stage = scheduler::kNone;  // as labels in the program say; kNone: none do
    std::int32_t microbatch = scheduler::kNone;

    friend bool operator==(const Chunk&, const Chunk&) = default;
  };

  JobVersions versions;
  std::int32_t rank = 0;  // in the group that carries the messages, as `size`
  std::int32_t size = 0;
  std::int32_t global_rank = 0;
  // Not empty: why nothing can be planned with this rank. All below may be missing then.
  std::string unable;
  std::string host;                  // ranks of one host share its processors
  std::int32_t host_processors = 0;  // so many ranks compute at once there; 0: each has its own
  Bytes budget_bytes = 0;
  bool asks_stages = false;  // its budget depends on them, and it cannot tell them alone
  Bytes fixed_bytes = 0;     // live for the whole step
  Bytes own_peak_bytes = 0;  // predicted, under its own plan
  Nanoseconds tail_ns = 0;   // after the last action
  bool short_of_memory = false;
  std::vector<Action> actions;  // in the program's order
  std::vector<ChunkClass> classes;
  std::vector<Chunk> chunks;

  friend bool operator==(const RankReport&, const RankReport&) = default;
};

// What a rank may put into the store: rank 0 reads as much of each. 256 microbatches of two stages
// with 16 points each take a quarter.
inline constexpr std::size_t kMostReportBytes = 20'000;

// A line of versions, then a packed JSON object: docs/formats.md. Texts that are too long are cut.
std::string toText(const RankReport& report);
// Throws std::invalid_argument that says what is wrong with it. What it returns has indices in
// range, sizes and times in 0 … 2^50, own replays also in sum, points by rising time and falling
// bytes.
RankReport reportFromText(std::string_view text);

// The object alone, before it is packed and unpacked.
std::string unpackedReport(std::string_view text);
std::string packedReport(const JobVersions& versions, std::string_view object);

}  // namespace ebbtide::plugin
