// Messages in a batch that their backend launches as one. Includes torch.
#pragma once

#include <ATen/record_function.h>

namespace ebbtide::plugin {

// Of a message whose call has returned. False: it is in a batch that is still open (NCCL's
// batch_isend_irecv) and launched with it later; the call gave nothing to wait for.
bool isUnderWay(const at::RecordFunction& call);

}  // namespace ebbtide::plugin
