// A hand-made file of two stages and a loss.
#pragma once

#include <nlohmann/json.hpp>

namespace ebbtide::scheduler {

inline nlohmann::json smallChainFile() {
  return {{"format", "ebbtide-chain-1"},
          {"activation_bytes", {10, 20, 30}},
          {"saved_bytes", {25, 45, 5}},
          {"forward_workspace_bytes", {1, 2, 3}},
          {"backward_workspace_bytes", {4, 5, 6}},
          {"forward_seconds", {0.5, 1e-9, 0}},
          {"backward_seconds", {1, 2.0, 3e-9}}};
}

}  // namespace ebbtide::scheduler
