// ForkClosing: a descriptor that forked children do not keep.
//
// A worker process that outlives a killed trainer would keep its port busy, and its Unix socket
// would look alive. close() in the child leaves the parent's, and the parent's epoll, as they are.
#pragma once

namespace ebbtide::metrics {

class ForkClosing {
 public:
  // Of a process at most 16 at once; of further ones children keep their copies.
  explicit ForkClosing(int descriptor) noexcept;
  ~ForkClosing();  // before the descriptor is closed
  ForkClosing(const ForkClosing&) = delete;
  ForkClosing& operator=(const ForkClosing&) = delete;

 private:
  int slot_ = -1;
};

}  // namespace ebbtide::metrics
