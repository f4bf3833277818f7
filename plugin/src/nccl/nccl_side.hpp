// What NCCL tells of this rank's communication: its profiler plugin (nccl/), where this process has
// loaded it. Torch-free, NCCL-free.
//
// Thread rule: offerToNccl() once, before others; the rest from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nccl/communication_waits.hpp"

namespace ebbtide::plugin {

// NCCL finds our plugin from now on: it lies in `folder`, and NCCL_PROFILER_PLUGIN names it. False:
// the variable names another one, which keeps its place, or the library is not there. Before the
// first communicator, and while no other thread reads the environment.
bool offerToNccl(const std::string& folder);

// Operations are watched from now on, or no longer: each watched one costs the host's polling.
void watchNccl(bool on) noexcept;

std::optional<CommunicationTotals> ncclTotals();  // nullopt: not offered

// What came since the cursor, which starts as 0. Empty where it was not offered. Only what is over:
// a receive that still waits comes when it ends. Tests alone ask: no plan is made of it.
std::vector<CommunicationWait> ncclWaitsSince(std::uint64_t& cursor);

}  // namespace ebbtide::plugin
