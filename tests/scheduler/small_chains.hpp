// Chains of rotor2024, and random ones.
#pragma once

#include <algorithm>
#include <random>

#include "model/chain.hpp"

namespace ebbtide::scheduler {

// Table 2, in units of 10 kB and 10 microseconds: memory is given in MB and time in milliseconds,
// both with two decimals.
inline Chain toyChain() {
  return {.activation_bytes = {763, 954, 1068, 1106, 1068, 954, 763},
          .saved_bytes = {954, 1068, 1108, 1066, 954, 763, 0},
          .forward_workspace_bytes = {0, 0, 0, 0, 0, 0, 0},
          .backward_workspace_bytes = {2001, 2764, 3099, 3099, 2764, 1908, 0},
          .forward_ns = {160, 220, 244, 251, 210, 143, 0},
          .backward_ns = {305, 448, 509, 493, 421, 334, 0}};
}

// Stages with a = ā, no workspaces and no time in backward. `activations` are a⁰ … aᴸ.
inline Chain plainChain(const std::vector<Bytes>& activations,
                        const std::vector<Nanoseconds>& forward) {
  Chain chain;
  chain.activation_bytes = activations;
  chain.saved_bytes.assign(activations.begin() + 1, activations.end());
  chain.saved_bytes.push_back(0);
  chain.forward_ns = forward;
  chain.forward_workspace_bytes.assign(forward.size(), 0);
  chain.backward_workspace_bytes = chain.backward_ns = chain.forward_workspace_bytes;
  return chain;
}

// Figure 4 with L = n + 2 and k = n - 2: a¹ = 1, aᴸ = 4, a⁰ = 0 and all others 3; F¹ takes k, F²
// takes 2, all else nothing.
inline Chain figureFourChain(std::size_t n) {
  std::vector<Bytes> activations(n + 3, 3);
  activations[0] = 0;
  activations[1] = 1;
  activations[n + 2] = 4;
  std::vector<Nanoseconds> forward(n + 3, 0);
  forward[0] = static_cast<Nanoseconds>(n) - 2;
  forward[1] = 2;
  return plainChain(activations, forward);
}

// Figure 3: stages of the given sizes and times with stages of nothing between them, then one as
// large as half of their sum.
inline Chain partitionChain(const std::vector<std::int64_t>& numbers) {
  std::vector<Bytes> activations = {0};
  std::vector<Nanoseconds> forward;
  std::int64_t sum = 0;
  for (std::int64_t number : numbers) {
    activations.insert(activations.end(), {number, 0});
    forward.insert(forward.end(), {number, 0});
    sum += number;
  }
  activations.push_back(sum / 2);
  forward.insert(forward.end(), {sum / 2, 0});
  return plainChain(activations, forward);
}

inline Chain randomChain(std::uint64_t seed, std::size_t stages, Bytes largest) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  Chain chain;
  for (std::size_t stage = 0; stage < stages; ++stage)
    chain.activation_bytes.push_back(pick(largest));
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const Bytes output = stage + 1 < stages ? chain.activation_bytes[stage + 1] : 0;
    chain.saved_bytes.push_back(output + pick(largest) * pick(1));
    chain.forward_workspace_bytes.push_back(pick(largest / 2));
    chain.backward_workspace_bytes.push_back(pick(largest / 2));
    chain.forward_ns.push_back(1 + pick(9));
    chain.backward_ns.push_back(pick(20));
  }
  return chain;
}

}  // namespace ebbtide::scheduler
