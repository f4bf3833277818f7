// What a call of NCCL asks for.
#pragma once

#include <cstddef>

#include "elements.hpp"

namespace emulated_nccl {

enum class Kind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSend,
  kReceive
};

struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // elements, as the call counts them
  ncclDataType_t type = ncclFloat32;
  Reduction reduction = {};
  int other = 0;  // the root, or a message's other rank

  std::size_t bytes() const { return count * elementBytes(type); }
};

constexpr bool isMessage(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kReceive;
}

constexpr const char* nameOf(Kind kind) {
  constexpr const char* kNames[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                    "Reduce",    "AlltoAll",  "Send",          "Recv"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace emulated_nccl
