// What the name of a scope says of a pipeline.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

struct ActionLabel {
  enum class Role : std::uint8_t { kAction, kMessage, kHint };  // a hint names no kind
  Role role = Role::kAction;
  // Of a message, the action that sends it or reads it; a gradient's is kBackward.
  PipelineAction::Kind kind = PipelineAction::Kind::kForward;
  std::int32_t stage = kNone;  // kNone: not named
  std::int32_t microbatch = 0;

  bool isForward() const { return kind == PipelineAction::Kind::kForward; }
};

// "PP:2F0", "PP:2RECV_F0", "PP:(1F3;0B2)OVERLAP_F_B", "Forward 3", "Backward 3", "ebbtide:2:0";
// several where a scope runs several actions, none where it names no action or message.
std::vector<ActionLabel> labelsOf(std::string_view scope);

}  // namespace ebbtide::scheduler
