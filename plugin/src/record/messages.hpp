// Messages: what a rank sends to and receives from single ranks, as the dispatcher sees it, and the
// process group that carries them. Includes torch.
#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <string>

#include "job/job_store.hpp"
#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

// c10d::send, c10d::recv_ or c10d::recv_any_source_; those of a batch come one by one.
bool isMessage(const at::RecordFunction& call);
bool isReceive(const at::RecordFunction& call);

// nullopt: no message, or of no process group that we know, or nothing that a pipeline's stages
// hand on. Before their first step stages tell each other shapes, as whole numbers, and say hello
// with a single one.
std::optional<GroupMessage> groupMessageOf(const at::RecordFunction& call);

// The store of the group of the last message; nullptr: that has another name, or its store is of a
// kind that we cannot use. On any thread.
std::unique_ptr<JobStore> storeOfMessages(const std::string& group);

}  // namespace ebbtide::plugin
