// The store that a process group was formed with, for JobAgreement. The one place that calls
// c10d::Store.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "job/job_store.hpp"

namespace ebbtide::plugin {

// Of each call. torch's own is 5 to 30 minutes, and most of its calls heed none.
inline constexpr std::chrono::milliseconds kJobStoreTimeOut = std::chrono::seconds(10);

// Takes TCPStore, FileStore and HashStore, behind any number of PrefixStores. Throws
// std::invalid_argument for another kind, since one written in Python would need the GIL, and for
// a group without a store. Begins to connect, and waits for nothing. Never keeps group or store
// alive: once they are gone each call throws JobStoreGone.
std::unique_ptr<JobStore> makeJobStore(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                       std::chrono::milliseconds time_out = kJobStoreTimeOut);

// The same of a store that is got anew for each call, on any thread: nullptr once it is gone.
using StoreSource = std::function<c10::intrusive_ptr<c10d::Store>()>;
std::unique_ptr<JobStore> makeJobStore(StoreSource source,
                                       std::chrono::milliseconds time_out = kJobStoreTimeOut);

}  // namespace ebbtide::plugin
