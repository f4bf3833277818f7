// Messages: what a rank sends to and receives from single ranks, as the dispatcher sees it. The
// only source that knows c10d. Includes torch.
#pragma once

#include <ATen/record_function.h>

#include <optional>

#include "event_log.hpp"

namespace ebbtide::plugin {

// c10d::send, c10d::recv_ or c10d::recv_any_source_; those of a batch come one by one.
bool isMessage(const at::RecordFunction& call);
bool isReceive(const at::RecordFunction& call);

// nullopt: of no process group that we know, or nothing that a pipeline's stages hand on. Before
// their first step stages tell each other shapes, as whole numbers, and say hello with a single
// one.
std::optional<GroupMessage> messageOf(const at::RecordFunction& call);

}  // namespace ebbtide::plugin
